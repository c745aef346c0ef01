# Sphinx's settings for the site, which packaging/docs.sh builds.
import pathlib

project = author = copyright = html_title = "mtl"
release = pathlib.Path("VERSION").read_text().strip()
root_doc = "README"
extensions = ["myst_parser"]
myst_heading_anchors = 4
smartquotes = False  # -- begins a flag
html_theme = "furo"  # light and dark, narrow screens, no external requests
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = html_show_sphinx = False
pygments_style = "friendly"
suppress_warnings = ["misc.highlighting_failure"]
