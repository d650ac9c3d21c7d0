"""The site: `make docs`. All that it needs is in the build: nothing is loaded from elsewhere."""

import re
import sys
from datetime import date
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

project = "discreet"
author = "The discreet authors"
copyright = f"{date.today().year}, {author}"
release = re.search(
    r'__version__ = "(.*?)"', (HERE.parent / "src/discreet/__init__.py").read_text(encoding="utf-8")
)[1]
version = release

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx_copybutton",
    "sphinx_design",
    "_site.reference",  # pages of every public name
    "_site.commands",  # a page of all commands
    "_site.gallery",  # examples, run and drawn
    "_site.names",  # code in prose links to its page
]
exclude_patterns = ["figures", "_site"]
smartquotes = False  # quotes in docstrings are code

myst_enable_extensions = ["colon_fence", "deflist", "tasklist"]
myst_heading_anchors = 3

autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
python_maximum_signature_line_length = 80
add_module_names = False
toc_object_entries_show_parents = "hide"

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

linkcheck_ignore = [r"http://127\.0\.0\.1", r"https://decisions\.example"]
linkcheck_timeout = 20

html_theme = "pydata_sphinx_theme"
html_title = "discreet"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_favicon = "_static/mark.svg"
html_copy_source = False
html_show_sphinx = False
html_theme_options = {
    "logo": {
        "text": "discreet",
        "image_light": "_static/mark.svg",
        "image_dark": "_static/mark.svg",
    },
    "navbar_align": "left",
    "header_links_before_dropdown": 7,
    "navigation_with_keys": False,
    "show_nav_level": 1,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {"index": [], "start": [], "concepts": []}  # no pages below them
