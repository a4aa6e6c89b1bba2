"""One self-contained page: nothing is fetched from anywhere."""

import pathlib

from longhaul.tables import escaped

HERE = pathlib.Path(__file__).parent


def html_page(title: str, body: str) -> str:
    """Head, styles, `body`, and the few lines that sort tables."""
    style, sort = ((HERE / f"page.{kind}").read_text(encoding="utf-8") for kind in ("css", "js"))
    return ('<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{escaped(title)}</title>\n<style>{style}</style></head>\n<body><main>\n{body}\n</main>\n"
            f"<script>{sort}</script></body></html>\n")


def figure_html(svg: str, caption: str) -> str:
    """A figure with its caption, which is HTML; "" when it was not drawn."""
    if not svg:
        return ""
    return f'<figure><div class="scroll drawing">{svg}</div><figcaption>{caption}</figcaption></figure>\n'
