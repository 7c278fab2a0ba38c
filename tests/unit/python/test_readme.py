"""What the README and the documents show is what is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from provenflow.hashing import task_hash

ROOT = Path(__file__).resolve().parents[3]
README = (ROOT / "README.md").read_text(encoding="utf-8")
# CONFORMANCE.md is generated from the requirements, whose grammars look like links.
DOCUMENTS = [ROOT / "README.md", *sorted(set((ROOT / "docs").glob("*.md")) - {ROOT / "docs/CONFORMANCE.md"})]


def block(language: str) -> str:
    """The README's one code block of a language."""
    (found,) = re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)
    return str(found)


def test_readme__workflow__is_the_compiled_one() -> None:
    source = (ROOT / "contracts/mocks/DraftAndReviewWorkflow.sol").read_text(encoding="utf-8")
    assert source.endswith(block("solidity"))


def test_readme__contract_tree__names_every_contract_of_the_product() -> None:
    named = set(re.findall(r"^    (\w+/)?(\w+\.sol) +\S", README, re.MULTILINE))
    shipped = {
        path.name
        for room in ("interfaces", "workflow", "examples")
        for path in (ROOT / "contracts" / room).rglob("*.sol")
    }
    assert {name for _, name in named} == shipped


def test_readme__hashing_example__runs() -> None:
    names = {"h": bytes(32), "t": 1, "e": 2, "run": bytes(32)}
    example = block("python")
    exec(example, names)
    assert len(task_hash(0, 0, bytes(32), 1, 2, [], bytes(32))) == 32


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_document__links__lead_somewhere(document: Path) -> None:
    prose = re.sub(r"```.*?```", "", document.read_text(encoding="utf-8"), flags=re.DOTALL)
    targets = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", prose)
    missing = [
        target for target in targets if "://" not in target and not (document.parent / target).exists()
    ]
    assert missing == []


@pytest.mark.parametrize("target", sorted(set(re.findall(r"^\s*make ([a-z-]+)", README, re.MULTILINE))))
def test_readme__make_targets__exist(target: str) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(rf"^{target}:", makefile, re.MULTILINE)
