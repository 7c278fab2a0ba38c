"""The three agents of the demo (provenflow.demo_agents): pure functions over a text."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provenflow.demo_agents import MAX_SUMMARY, clean, measure, report, summarise
from provenflow.errors import Invalid

TEXT = (Path(__file__).parents[3] / "examples" / "data" / "agent-work.txt").read_bytes()


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("One.", "One."),
        ("One. Two!  Three?\nFour", "One.\nTwo!\nThree?\nFour"),
        ("A line\nwrapped here. Next.", "A line wrapped here.\nNext."),
        ("One.\r\n\r\nTwo.\rStill two.", "One.\n\nTwo.\nStill two."),
        ("\n\n One. \n \t\n\n Two. \n", "One.\n\nTwo."),
        ('She said "go." He went.', 'She said "go."\nHe went.'),
        ("It costs 3.50 a day.", "It costs 3.50 a day."),
        ("一句话。第二句！", "一句话。\n第二句！"),
        ("\ufeffin\u00advisi\u200bble\x07 \u202etext.", "invisible text."),
        ("tab\tand\u00a0space.", "tab and space."),
    ],
)
def test_clean__text__is_one_sentence_a_line(text, cleaned):
    assert clean(text.encode()).decode() == cleaned


@pytest.mark.parametrize("text", ["", " \n ", "... !", "12 34", "\u200b"])
def test_clean__no_words__is_refused(text):
    with pytest.raises(Invalid, match="has no words"):
        clean(text.encode())


def test_summarise__keeps_what_the_text_is_about_in_its_order():
    cleaned = b"The hash binds.\nCats sleep.\nA hash of a hash binds a hash.\nRain fell.\nThe hash holds."

    assert summarise(cleaned) == b"3\tA hash of a hash binds a hash."


def test_summarise__equal_sentences__takes_the_earlier():
    assert summarise(b"Intro words.\n\nSame thing.\nSame thing.\nSame thing.") == b"2\tSame thing."


@pytest.mark.parametrize(("sentences", "kept"), [(1, 1), (2, 1), (10, 2), (25, 5), (200, MAX_SUMMARY)])
def test_summarise__keeps_about_one_in_five(sentences, kept):
    cleaned = "\n".join(
        f"Sentence about topic{chr(97 + number % 26)}." for number in range(sentences)
    ).encode()

    assert len(summarise(cleaned).split(b"\n")) == kept


def test_measure__counts_what_is_there():
    figures = measure(b"The hash binds the hash.\n\nAnother hash, another day.")

    assert (figures.sentences, figures.words, figures.different) == (2, 9, 5)
    assert figures.frequent[0] == ("hash", 3)
    assert "the" not in dict(figures.frequent)


def test_report__says_figures_and_quotes_the_summary():
    cleaned = clean(TEXT)
    lines = report(cleaned, summarise(cleaned)).decode().split("\n")

    assert lines[0] == "REPORT"
    assert lines[1].startswith("22 sentences, 325 words, ")
    assert lines[3].startswith("summary, 4 of 22 sentences, ")
    assert len(lines[4:]) == 4
    for line in lines[4:]:
        sentence, _, number = line.removeprefix("- ").rpartition(" [")
        assert cleaned.decode().replace("\n\n", "\n").split("\n")[int(number[:-1]) - 1] == sentence


def test_report__sentence_and_word_without_end__are_cut():
    cleaned = b"x" * 20_000

    made = report(cleaned, summarise(cleaned)).decode()

    assert len(made) < 1000
    assert f"most often: {'x' * 29}… (1)" in made
    assert f"- {'x' * 399}… [1]" in made


@pytest.mark.parametrize(
    "summary",
    ["1\tNot in the text.", "0\tOne.", "3\tOne.", "x\tOne.", "One.", "1\tTwo.", "-1\tOne."],
)
def test_report__summary_that_quotes_something_else__is_refused(summary):
    with pytest.raises(Invalid, match="quotes what is not in the text"):
        report(b"One.\nTwo.", summary.encode())


@given(st.text(max_size=400))
def test_agents__any_text__work_together_or_say_why_not(text):
    try:
        cleaned = clean(text.encode("utf-8", "ignore"))
    except Invalid:
        return
    summary = summarise(cleaned)

    assert clean(cleaned) == cleaned
    assert report(cleaned, summary).startswith(b"REPORT\n")
    assert summarise(cleaned) == summary
