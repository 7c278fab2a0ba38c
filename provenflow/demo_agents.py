"""Three small agents that work on a text, one after the other: clean, summarise, report.

Plain functions from bytes to bytes, without a model and without chance, so that anyone can run them again and compare
the hashes. What each one gets is exactly what the one before it answered on the chain.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass
from typing import Final

from provenflow.errors import Invalid

MAX_SUMMARY: Final = 5
_WORDS_A_MINUTE: Final = 200  # a usual figure for reading prose
_TOP_WORDS: Final = 6
# In characters. They keep a report short whatever the text is: it is stored on the chain.
_LONGEST_QUOTE: Final = 400
_LONGEST_WORD: Final = 30

# Everything that is no text: control characters apart from line ends, and characters without width.
_INVISIBLE: Final = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]"
)
# A sentence ends after its mark, or a quote or bracket closed after it, before white space; Chinese and Japanese marks
# need none.
_SENTENCE_END: Final = re.compile(r"(?<=[.!?…])\s+|(?<=[.!?…][\"'”’)\]])\s+|(?<=[。！？])\s*")
_WORD: Final = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
# Words that say how, not what.
_STOPWORDS: Final = frozenset(
    """
    a about above after again all also although am an and any anyone are as at be because been before being between
    both but by can cannot could did do does each else even every few for from further had has have having he her
    here his how i if in instead into is it its itself just like more most much my no nobody nor not of off on once
    one only or other our out over own same say says she should since so some somebody something still such than
    that the their them then there these they this those through to too under until up upon was we were what when
    where which while who whoever whom whose why will with without would yes you your
    """.split()  # noqa: SIM905 - a list of quoted words is harder to read
)


def clean(text: bytes) -> bytes:
    """StepA: one sentence a line, an empty line between paragraphs, single spaces, nothing invisible.

    Parameters
    ----------
    text:
        UTF-8.

    Raises
    ------
    Invalid
        There is no word in it.
    """
    visible = _INVISIBLE.sub("", text.decode().replace("\r\n", "\n").replace("\r", "\n"))
    paragraphs = []
    for block in re.split(r"\n\s*\n", visible):
        sentences = [" ".join(part.split()) for part in _SENTENCE_END.split(block)]
        if kept := [sentence for sentence in sentences if sentence]:
            paragraphs.append("\n".join(kept))
    cleaned = "\n\n".join(paragraphs)
    if not _WORD.search(cleaned):
        raise Invalid("The text has no words.", fix="Give a text file with sentences.")
    return cleaned.encode()


def summarise(cleaned: bytes) -> bytes:
    """StepB: the sentences that carry most of what the text is about, in the text's order.

    A word weighs as much as it is frequent; a sentence is worth the sum of its words' weights over the root of its
    length, so that neither long nor short ones win by length, and a little more when it opens a paragraph. About one
    sentence in five is kept, at most five. Equal ones: the earlier wins.

    Parameters
    ----------
    cleaned:
        From :func:`clean`.

    Returns
    -------
    bytes
        A line for each sentence kept: its number in the text, from 1, a tab, the sentence.
    """
    sentences, opening = _sentences(cleaned)
    weights = Counter(word for sentence in sentences for word in _content_words(sentence))

    def worth(number: int) -> float:
        words = _content_words(sentences[number])
        if not words:
            return 0.0
        total = sum(weights[word] for word in words) / math.sqrt(len(words))
        return total * (1.1 if number in opening else 1.0)

    keep = min(MAX_SUMMARY, max(1, round(len(sentences) / 5)))
    best = sorted(range(len(sentences)), key=lambda number: (-worth(number), number))[:keep]
    return "\n".join(f"{number + 1}\t{sentences[number]}" for number in sorted(best)).encode()


@dataclass(frozen=True)
class Figures:
    """What a text measures: sentences, words, different words, and the most frequent ones that mean something."""

    sentences: int
    words: int
    different: int
    frequent: tuple[tuple[str, int], ...]


def measure(cleaned: bytes) -> Figures:
    """The figures of a text from :func:`clean`."""
    sentences, _ = _sentences(cleaned)
    words = [word.casefold() for sentence in sentences for word in _WORD.findall(sentence)]
    meaningful = Counter(word for sentence in sentences for word in _content_words(sentence))
    frequent = sorted(meaningful.items(), key=lambda item: (-item[1], item[0]))[:_TOP_WORDS]
    return Figures(len(sentences), len(words), len(set(words)), tuple(frequent))


def report(cleaned: bytes, summary: bytes) -> bytes:
    """StepC: the summary with the figures of the text that it was made from.

    Parameters
    ----------
    cleaned:
        From :func:`clean`.
    summary:
        From :func:`summarise` of the same text.

    Raises
    ------
    Invalid
        The summary has a sentence that the text does not have there.
    """
    sentences, _ = _sentences(cleaned)
    quoted = []
    for line in summary.decode().split("\n"):
        number, _, sentence = line.partition("\t")
        if (
            not number.isdecimal()
            or not 1 <= int(number) <= len(sentences)
            or sentences[int(number) - 1] != sentence
        ):
            raise Invalid(f"The summary quotes what is not in the text: {line[:80]!r}.")
        quoted.append((number, sentence))
    figures = measure(cleaned)
    kept = measure("\n".join(sentence for _, sentence in quoted).encode())
    minutes = max(1, round(figures.words / _WORDS_A_MINUTE))
    often = ", ".join(f"{_cut(word, _LONGEST_WORD)} ({count})" for word, count in figures.frequent)
    lines = [
        "REPORT",
        f"{figures.sentences} sentences, {figures.words} words, {figures.different} of them different;"
        f" {figures.words / figures.sentences:.1f} words a sentence; about {minutes} min to read",
        f"most often: {often or 'no word twice'}",
        f"summary, {len(quoted)} of {figures.sentences} sentences, {100 * kept.words // figures.words} % of the words:",
        *(f"- {_cut(sentence, _LONGEST_QUOTE)} [{number}]" for number, sentence in quoted),
    ]
    return "\n".join(lines).encode()


def _sentences(cleaned: bytes) -> tuple[list[str], set[int]]:
    """The sentences, and the positions of those that open a paragraph."""
    sentences: list[str] = []
    opening: set[int] = set()
    for paragraph in cleaned.decode().split("\n\n"):
        opening.add(len(sentences))
        sentences += paragraph.split("\n")
    return sentences, opening


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def _content_words(sentence: str) -> list[str]:
    words = (word.casefold() for word in _WORD.findall(sentence))
    return [word for word in words if word not in _STOPWORDS and len(word) > 1]
