#!/usr/bin/env python3
"""English prose from the documentation in Debian's packages: OUT/{train,validation}.jsonl.

A package is downloaded and read, never installed. Web pages, manual pages, Info and text files become paragraphs.
Kept are paragraphs of English prose, each once: two versions of a manual share most of their text. A document is in
one of the two files by its path without digits, so that all versions of it are on one side."""

import argparse
import concurrent.futures
import glob
import gzip
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile

from english_prose import blocks_function, paragraphs
from wordnet_instructions import is_validation, share

VALIDATION = 0.005
FEWEST, MOST = 300, 8000  # characters of a document; a longer one is divided between paragraphs
MOST_OF_PACKAGE = 20_000_000  # characters: variety instead of one library's reference
# Debian's sections, and the largest package of them in bytes: what is larger is mostly pictures or programs. Rows are
# read in their order. Packages of the later ones have manual pages and READMEs.
SECTIONS = (("doc|perl", 150_000_000),
            ("admin|comm|database|editors|httpd|kernel|mail|math|net|shells|tex|text|utils|vcs", 6_000_000),
            ("devel|electronics|hamradio|interpreters|libdevel|lisp|misc|science|sound|graphics|web|x11",
             3_000_000))
LARGEST_FILE = 50_000_000
BATCH = 96  # packages of one call of apt-get

# Texts outside the section of documentation.
MORE = ("anarchism", "bible-kjv-text", "dict-foldoc", "dict-gcide", "dict-jargon", "fortunes", "fortunes-bofh-excuses",
        "fortunes-min", "wordnet-base")
# References generated from source, print, and other languages.
LEFT_OUT = re.compile(r"^texlive-|-pdf$|-(?:ar|bg|ca|cs|da|de|el|eo|es|et|eu|fa|fi|fr|gl|he|hi|hr|hu|"
                      r"id|it|ja|ko|lt|nb|nl|nn|no|pl|pt|ro|ru|sk|sl|sr|sv|ta|th|tr|uk|vi|zh)(?:-[a-z]{2,4})?$")
# Listings of source, indices, histories of releases and licences.
NO_PROSE = re.compile(r"source\.html|/_sources/|/search/|/(?:genindex|py-modindex|functions_|globals_|dir_|index_)"
                      r"|changelog|/copyright|/(?:de|es|fr|it|ja|ko|pl|pt|pt_BR|ru|zh_CN|zh_TW)/")


def list_packages() -> list[str]:
    """Names by row of SECTIONS, there in the order of their hashes, so that the first N are a sample."""
    available = subprocess.run(["apt-cache", "dumpavail"], capture_output=True, text=True, check=True).stdout
    rows: list[set[str]] = [set() for _ in SECTIONS]
    rows[0] |= set(MORE)
    for entry in available.split("\n\n"):
        fields = dict(re.findall(r"^(Package|Section|Size): (.*)", entry, re.MULTILINE))
        name, section = fields.get("Package", ""), fields.get("Section", "")
        for names, (wanted, largest) in zip(rows, SECTIONS, strict=True):
            size = float(fields.get("Size", "inf"))  # none: it is installed, and no longer offered
            if re.fullmatch(wanted, section) and not LEFT_OUT.search(name) and size <= largest:
                names.add(name)
    return [name for names in rows for name in sorted(names, key=share)]


def read_files(package: str):
    """(path, paragraphs) of the files of a .deb, until there is enough."""
    length = 0
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE) as unpacking:
        with tarfile.open(fileobj=unpacking.stdout, mode="r|", errors="replace") as archive:
            for member in archive:
                if length >= MOST_OF_PACKAGE:
                    break
                name = member.name.removesuffix(".gz").removesuffix(".dz")
                has_prose = blocks_function(name) and not NO_PROSE.search(name)
                if has_prose and member.isfile() and member.size <= LARGEST_FILE:
                    texts = read_file(name, archive.extractfile(member).read(), name != member.name)
                    length += sum(map(len, texts))
                    yield name, texts
        for _ in iter(lambda: unpacking.stdout.read(1 << 20), b""):
            pass  # dpkg-deb fails when its pipe is closed early


def read_file(name: str, content: bytes, is_compressed: bool) -> list[str]:
    try:
        return paragraphs(name, gzip.decompress(content) if is_compressed else content)
    except (gzip.BadGzipFile, EOFError):
        return []  # its name alone is that of a compressed file


def read_batch(names: list[str]) -> list[tuple[str, list[str]]]:
    found = []
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["apt-get", "download", "-qq", "-o", "APT::Sandbox::User=root", *names], cwd=folder, check=False)
        packages = sorted(glob.glob(os.path.join(folder, "*.deb")))
        if len(packages) < len(names):
            print(f"{len(names) - len(packages)} packages of {names[0]} to {names[-1]} are missing", file=sys.stderr)
        for package in packages:
            found += [(path, texts) for path, texts in read_files(package) if texts]
    return found


class Corpus:
    def __init__(self, train: io.TextIOBase, validation: io.TextIOBase):
        self.train, self.validation = train, validation
        self.num_characters = 0
        self.seen: set[bytes] = set()

    def is_new(self, paragraph: str) -> bool:
        """Numbers do not make a paragraph another one."""
        key = hashlib.blake2b(re.sub(r"\d+", "0", paragraph).lower().encode(), digest_size=8).digest()
        if key in self.seen:
            return False
        self.seen.add(key)
        return True

    def add(self, path: str, texts: list[str]) -> None:
        file = self.validation if is_validation(re.sub(r"\d+", "", path), VALIDATION) else self.train
        for document in divide([text for text in texts if self.is_new(text)]):
            file.write(json.dumps({"text": document}) + "\n")
            self.num_characters += len(document)


def divide(texts: list[str]):
    """Documents of at most MOST characters, where paragraphs allow."""
    part: list[str] = []
    for text in [*texts, None]:
        if part and (text is None or sum(map(len, part)) + len(text) > MOST):
            document = "\n\n".join(part) + "\n"
            if len(document) >= FEWEST:
                yield document
            part = []
        if text is not None:
            part.append(text)


def fill(corpus: Corpus, most: float, jobs: int) -> None:
    names = list_packages()
    batches = [names[i:i + BATCH] for i in range(0, len(names), BATCH)]
    with concurrent.futures.ProcessPoolExecutor(jobs) as pool:
        for num, found in enumerate(pool.map(read_batch, batches), 1):
            for path, texts in found:
                corpus.add(path, texts)
            print(f"{min(num * BATCH, len(names)):,} of {len(names):,} packages: {corpus.num_characters:,} characters",
                  file=sys.stderr, flush=True)
            if corpus.num_characters >= most:
                pool.shutdown(cancel_futures=True)
                return


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--out", required=True, metavar="FOLDER")
    parser.add_argument("--characters", type=float, default=9.2e8, metavar="N", help="read no more after so many")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    os.makedirs(arguments.out, exist_ok=True)
    train, validation = (os.path.join(arguments.out, f"{side}.jsonl") for side in ("train", "validation"))
    with open(train, "w", encoding="utf-8") as first, open(validation, "w", encoding="utf-8") as second:
        fill(Corpus(first, second), arguments.characters, arguments.jobs)


if __name__ == "__main__":
    main()
