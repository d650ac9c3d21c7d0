"""Names in the prose of pages lead to their reference: `LinearBandit` is a link, once a section."""

from typing import Any

from .reference import full_names


def link_names(app: Any, doctree: Any) -> None:
    """Make references of code that is the public name of one room."""
    from docutils import nodes
    from sphinx.addnodes import pending_xref

    unlinked = (nodes.reference, pending_xref, nodes.title, nodes.term)
    known = app.env.temp_data.setdefault("public names", full_names())
    seen: set[tuple[int, str]] = set()
    for literal in list(doctree.findall(nodes.literal)):
        name = literal.astext().removesuffix("()")
        spoken = name.islower() and "_" not in name  # `link` is a parameter more often
        target = None if spoken else known.get(name)
        parent = literal.parent
        section = parent
        while section is not None and not isinstance(section, nodes.section):
            section = section.parent
        key = id(section), str(target)
        here = app.env.docname.endswith(f"/{name}")
        if target is None or here or key in seen or isinstance(parent, unlinked):
            continue
        seen.add(key)
        link = pending_xref(
            "", refdomain="py", reftype="obj", reftarget=target, refexplicit=True, refwarn=True
        )
        link["refdoc"] = app.env.docname
        parent.replace(literal, link)
        link += literal


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("doctree-read", link_names)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
