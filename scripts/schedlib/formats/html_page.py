# SPDX-License-Identifier: GPL-2.0
"""Self-contained HTML pages without scripts. What they show is untrusted."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from schedlib.progress import counted, printable


def rendered(template: Path, **values: object) -> str:
    """A page from a template. Texts are escaped; it has the style sheet and loads nothing."""
    environment = Environment(
        loader=FileSystemLoader(template.parent),
        autoescape=True,
        undefined=StrictUndefined,
        # Control characters, lone surrogates and bidirectional marks are replaced before jinja escapes the text.
        finalize=lambda value: printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    css = Path(__file__).with_name("page.css").read_text()
    return environment.get_template(template.name).render(
        counted=counted,
        css=Markup(css),  # noqa: S704 - ours
        css_hash=b64encode(hashlib.sha256(css.encode()).digest()).decode(),
        **values,
    )
