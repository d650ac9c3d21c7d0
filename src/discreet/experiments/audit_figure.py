"""The picture of an audit: what attacks proved beside what is claimed."""

from pathlib import Path

from matplotlib.figure import Figure


def audit_figure(bars: list[tuple[str, float, float]], out: Path) -> Path:
    """Bars of (attack, fraction of the claim proved, fraction attainable), saved as audit.svg.

    Fractions are of mu where the claim is Gaussian, and else of epsilon.
    """
    out.mkdir(parents=True, exist_ok=True)
    picture = Figure(figsize=(8, 1 + 0.22 * len(bars)), layout="constrained")
    axis = picture.subplots()
    names, proved, best = (list(column)[::-1] for column in zip(*bars, strict=True))
    axis.barh(names, best, color="#d9d9d9", label="attainable by an ideal attack")
    axis.barh(names, proved, color="#0072B2", height=0.5, label="proved, 95% confidence")
    axis.axvline(1.0, color="#D55E00", label="claimed")
    axis.set(
        xlabel="fraction of the claim: mu if Gaussian, else epsilon", xlim=(0, max(1.1, *proved))
    )
    axis.tick_params(axis="y", labelsize=7)
    axis.margins(y=0.01)
    picture.legend(loc="outside lower center", ncols=3, frameon=False)
    path = out / "audit.svg"
    picture.savefig(path)
    return path
