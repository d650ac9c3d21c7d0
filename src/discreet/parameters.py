"""Constructor arguments as scikit-learn reads and changes them; scikit-learn is not needed."""

import inspect
from typing import Any, Self


class Parameters:
    """get_params, set_params and a short repr, from the constructor's signature.

    An argument that has arguments of its own, such as the estimator of a search, shows them too, as
    estimator__epsilon.
    """

    @classmethod
    def _parameters(cls) -> list[str]:
        return [name for name in inspect.signature(cls.__init__).parameters if name != "self"]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's arguments; `deep`: theirs too."""
        found = {name: getattr(self, name) for name in self._parameters()}
        for name, value in list(found.items()):
            if deep and hasattr(value, "get_params") and not isinstance(value, type):
                found |= {f"{name}__{inner}": each for inner, each in value.get_params().items()}
        return found

    def set_params(self, **changes: Any) -> Self:
        """Change arguments by name."""
        for name, value in changes.items():
            own, _, inner = name.partition("__")
            if own not in self._parameters() or (inner and not hasattr(self, own)):
                known = ", ".join(self._parameters())
                raise ValueError(f"unknown parameter {name!r}; there are {known}")
            if inner:
                getattr(self, own).set_params(**{inner: value})
            else:
                setattr(self, own, value)
        return self

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self).__init__).parameters
        changed = [
            f"{name}={value!r}"
            for name, value in self.get_params(deep=False).items()
            if not (value is defaults[name].default or repr(value) == repr(defaults[name].default))
        ]
        return f"{type(self).__name__}({', '.join(changed)})"
