"""Where shipped datasets lie. The same name finds the same files in a checkout and in an installed wheel."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]


def dataset_dir(name: str, *, root: Path | None = None) -> Path:
    """The folder of dataset ``name``: below ``root`` when given, else in the wheel, else in the checkout.

    Raises FileNotFoundError naming every place that was tried.
    """
    roots = (root,) if root is not None else (_PACKAGE / "_datasets", _PACKAGE.parent / "datasets")
    for candidate in roots:
        if (candidate / name / "manifest.json").is_file():
            return candidate / name
    tried = ", ".join(str(candidate / name) for candidate in roots)
    raise FileNotFoundError(f"dataset {name!r} has no manifest.json; looked in {tried}")
