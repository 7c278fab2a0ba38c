"""Plain Ape commands never use, and never export, bytecode that is older than any of its inputs."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from provenflow.build import artifacts_are_fresh, cache_is_fresh, drop_stale_cache
from tests.toolchain.conftest import TinyCheckout, bare_run

# What Child.answer() returns, as PUSH1 <n>; only the constant of the base differs.
PUSH_41, PUSH_42 = "6029", "602a"

ENSURE = "from pathlib import Path; from ape import Project; from provenflow.build import ensure_compiled;"
CONFTEST = """from pathlib import Path

import ape_solidity.compiler as compiler
from ape import Project, project
from provenflow.build import ensure_compiled

original = compiler.compile_standard


def counted(*args, **kwargs):
    with Path("compilations").open("a") as file:
        file.write("one\\n")
    return original(*args, **kwargs)


def pytest_configure(config):
    compiler.compile_standard = counted
    project.manifest
    ensure_compiled(Project(Path.cwd()))
"""
COMPILING = "Compiling using Solidity compiler"


def test_ape_compile__exports_every_contract_in_the_documented_format(compiled: TinyCheckout) -> None:
    document = compiled.artifacts

    assert document["format"] == "provenflow-artifacts/1"
    assert document["compiler"] == {"solc": "0.8.30", "evmVersion": "prague", "optimizerRuns": 200}
    assert set(document["contracts"]) == {"Base", "Child", "Pretender"}
    child, base, mock = (document["contracts"][name] for name in ("Child", "Base", "Pretender"))
    assert child["deployedBytecode"] == compiled.cached["Child"]
    assert child["bytecode"].endswith(child["deployedBytecode"].removeprefix("0x"))
    assert child["abi"] == [
        {
            "type": "function",
            "name": "answer",
            "stateMutability": "pure",
            "inputs": [],
            "outputs": [{"name": "", "type": "uint256", "internalType": "uint256"}],
        }
    ]
    assert (base["bytecode"], base["deployedBytecode"], base["sourceId"]) == ("", "", "contracts/Base.sol")
    assert (child["mock"], mock["mock"]) == (False, True)


def test_ape_compile__nothing_changed__compiles_nothing(compiled: TinyCheckout) -> None:
    assert COMPILING not in compiled.run("ape", "compile")


def test_ape_compile__base_changed__recompiles_the_child(compiled: TinyCheckout) -> None:
    assert PUSH_41 in compiled.cached["Child"]
    compiled.edit("contracts/Base.sol", "41", "42")

    compiled.run("ape", "compile")

    assert PUSH_42 in compiled.cached["Child"]
    assert PUSH_42 in compiled.artifacts["contracts"]["Child"]["deployedBytecode"]


def test_ape_compile__naming_only_the_child__still_sees_the_changed_base(compiled: TinyCheckout) -> None:
    compiled.edit("contracts/Base.sol", "41", "42")

    compiled.run("ape", "compile", "contracts/Child.sol")

    assert PUSH_42 in compiled.cached["Child"]


def test_ape_compile__contract_deleted__forgets_it(compiled: TinyCheckout) -> None:
    (compiled.root / "contracts" / "mocks" / "Pretender.sol").unlink()

    compiled.run("ape", "compile")

    assert set(compiled.cached) == {"Base", "Child"}
    assert set(compiled.artifacts["contracts"]) == {"Base", "Child"}


def test_ape_compile__compiler_setting_changed__recompiles(compiled: TinyCheckout) -> None:
    before = compiled.cached["Pretender"]
    compiled.edit("ape-config.yaml", "optimize: true", "optimize: false")

    compiled.run("ape", "compile")

    assert compiled.cached["Pretender"] != before
    assert compiled.artifacts["compiler"]["optimizerRuns"] == 0


def test_ape_compile__cache_written_by_something_else__recompiles(compiled: TinyCheckout) -> None:
    before = compiled.cached["Child"]
    cache = compiled.root / ".build" / "__local__.json"
    cache.write_text(cache.read_text().replace(PUSH_41, PUSH_42))

    compiled.run("ape", "compile")

    assert compiled.cached["Child"] == before


def test_ape_compile__naming_a_file_without_contract__compiles_nothing(compiled: TinyCheckout) -> None:
    assert COMPILING not in compiled.run("ape", "compile", "contracts/Colours.sol")


def test_ape_compile__force__compiles_and_stays_fresh(compiled: TinyCheckout) -> None:
    assert COMPILING in compiled.run("ape", "compile", "--force")
    assert COMPILING not in compiled.run("ape", "compile")


def test_ape_compile__outside_the_temporary_folder__gives_the_same_bytes(
    compiled: TinyCheckout, tmp_path: Path
) -> None:
    """Ape compiles in place below the temporary folder, and in a copy without node_modules everywhere else."""
    before = compiled.artifacts
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()

    assert COMPILING in compiled.run("ape", "compile", "--force", TMPDIR=str(elsewhere))

    assert compiled.artifacts == before


def test_ape_test__base_changed__runs_against_the_new_bytecode(compiled: TinyCheckout) -> None:
    (compiled.root / "tests").mkdir()
    (compiled.root / "tests" / "test_child.py").write_text(
        "def test_answer(project, accounts):\n    assert accounts[0].deploy(project.Child).answer() == 42\n"
    )
    compiled.edit("contracts/Base.sol", "41", "42")

    assert "1 passed" in compiled.run("ape", "test", "-q", "-p", "no:cacheprovider")


@pytest.mark.parametrize("access", ["project.Child", "project.contracts.get('Child')"])
def test_ape_run__base_changed__the_script_sees_the_new_bytecode(compiled: TinyCheckout, access: str) -> None:
    (compiled.root / "scripts").mkdir()
    (compiled.root / "scripts" / "show.py").write_text(
        "from ape import project\n\n\ndef main():\n"
        f"    print('runtime', {access}.contract_type.runtime_bytecode.bytecode)\n"
    )
    compiled.edit("contracts/Base.sol", "41", "42")

    assert PUSH_42 in compiled.run("ape", "run", "show").split("runtime", 1)[1]


@pytest.mark.parametrize("stale", [False, True], ids=["never compiled", "stale"])
def test_ape_test__compiled_by_conftest__is_compiled_once_and_stays_fresh(
    tiny: TinyCheckout, compiled_once: Path, stale: bool
) -> None:
    """conftest.py compiles through a project object of its own; the one of the fixtures must see the result."""
    if stale:
        shutil.copytree(compiled_once / ".build", tiny.root / ".build")
        shutil.copytree(compiled_once / "provenflow", tiny.root / "provenflow")
    tiny.edit("contracts/Base.sol", "41", "42")
    (tiny.root / "tests").mkdir()
    (tiny.root / "tests" / "conftest.py").write_text(CONFTEST)
    (tiny.root / "tests" / "test_child.py").write_text(
        "def test_answer(project, accounts):\n    assert accounts[0].deploy(project.Child).answer() == 42\n"
    )

    assert "1 passed" in tiny.run("ape", "test", "-q", "-p", "no:cacheprovider")

    assert (tiny.root / "compilations").read_text() == "one\n"
    assert cache_is_fresh(tiny.root)


def test_ape_run__base_changed__the_old_types_are_forgotten(compiled: TinyCheckout) -> None:
    """Even where a script reads what Ape has cached without asking for a contract."""
    (compiled.root / "scripts").mkdir()
    (compiled.root / "scripts" / "types.py").write_text(
        "from ape import project\n\n\ndef main():\n"
        "    print('types', sorted(project.manifest.contract_types or {}))\n"
    )
    assert "types ['Base', 'Child', 'Pretender']\n" in compiled.run("ape", "run", "types")
    compiled.edit("contracts/Base.sol", "41", "42")

    assert "types []\n" in compiled.run("ape", "run", "types")


def test_ape_run__base_changed__compiles_whole_and_exports(compiled: TinyCheckout) -> None:
    (compiled.root / "scripts").mkdir()
    (compiled.root / "scripts" / "touch.py").write_text(
        "from ape import project\n\n\ndef main():\n    project.Child\n"
    )
    compiled.edit("contracts/Base.sol", "41", "42")

    compiled.run("ape", "run", "touch")

    assert cache_is_fresh(compiled.root)
    assert artifacts_are_fresh(compiled.root)


def test_ape_compile__syntax_error__fails_and_leaves_nothing_fresh(compiled: TinyCheckout) -> None:
    compiled.edit("contracts/Base.sol", "return 41;", "return 41")

    output = compiled.run("ape", "compile", ok=False)

    assert "contracts/Base.sol:9" in output
    assert "Traceback" not in output
    assert not compiled.artifacts_file.exists()
    assert not artifacts_are_fresh(compiled.root)
    assert not cache_is_fresh(compiled.root)


def test_ape_compile__mended_after_a_failure__compiles(compiled: TinyCheckout) -> None:
    before = compiled.artifacts
    compiled.edit("contracts/Base.sol", "return 41;", "return 41")
    compiled.run("ape", "compile", ok=False)
    compiled.edit("contracts/Base.sol", "return 41", "return 41;")

    assert COMPILING in compiled.run("ape", "compile")

    assert compiled.artifacts == before


def test_ape_compile__compiler_warns_about_our_source__fails_each_time(compiled: TinyCheckout) -> None:
    compiled.edit("contracts/Base.sol", "return 41;", "uint256 idle;\n        return 41;")

    for _ in range(2):
        output = compiled.run("ape", "compile", ok=False)
        assert "Unused local variable" in output
        assert "contracts/Base.sol:8" in output
    assert not compiled.artifacts_file.exists()


def test_ape_compile__two_contracts_of_one_name__fails(compiled: TinyCheckout) -> None:
    text = (compiled.root / "contracts" / "mocks" / "Pretender.sol").read_text()
    (compiled.root / "contracts" / "Again.sol").write_text(text)

    output = compiled.run("ape", "compile", ok=False)

    assert "Nothing was compiled from contracts/" in output
    assert not compiled.artifacts_file.exists()


def test_ape_compile__node_modules_behind_the_lock__says_so(compiled: TinyCheckout) -> None:
    compiled.edit("node_modules/@openzeppelin/contracts/package.json", '"version": "', '"version": "0.')

    output = compiled.run("ape", "compile", ok=False)

    assert "package-lock.json wants @openzeppelin/contracts" in output
    assert "make setup" in output


def test_ape_accounts__incomplete_setup__still_works(compiled: TinyCheckout) -> None:
    (compiled.root / "node_modules" / "@openzeppelin" / "contracts" / "package.json").unlink()

    compiled.run("ape", "accounts", "list")


def test_ensure_compiled__called_by_two_processes_at_once__compiles_once(tiny: TinyCheckout) -> None:
    code = f"{ENSURE} print('compiled', ensure_compiled(Project(Path.cwd())))"
    environment = {"HOME": str(tiny.home), "PATH": f"{sys.prefix}/bin:/usr/bin:/bin"}
    both = [
        subprocess.Popen(
            [sys.executable, "-c", code], cwd=tiny.root, env=environment, stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]

    answers = sorted(process.communicate(timeout=240)[0].splitlines()[-1] for process in both)

    assert answers == ["compiled False", "compiled True"]
    assert [process.returncode for process in both] == [0, 0]


def test_ensure_compiled__again_in_one_process__sees_every_change(tiny: TinyCheckout) -> None:
    code = f"""{ENSURE}
root = Path.cwd()
project = Project(root)
base, child, mock = (root / "contracts" / name for name in ("Base.sol", "Child.sol", "mocks/Pretender.sol"))
print(ensure_compiled(project), ensure_compiled(project))
base.write_text(base.read_text().replace("41", "42"))
(root / "contracts" / "Other.sol").write_text(child.read_text().replace("Child", "Other"))
mock.unlink()
print(ensure_compiled(project), sorted(project.load_contracts()))
"""

    output = tiny.run(sys.executable, "-c", code)

    assert "True False\n" in output
    assert "True ['Base', 'Child', 'Other']\n" in output
    assert PUSH_42 in tiny.cached["Child"]
    assert set(tiny.artifacts["contracts"]) == {"Base", "Child", "Other"}


def test_ensure_compiled__source_changed_meanwhile__fails(tiny: TinyCheckout) -> None:
    code = f"""{ENSURE}
import ape_solidity.compiler as compiler
original = compiler.compile_standard
def slow(*args, **kwargs):
    output = original(*args, **kwargs)
    Path("contracts/Child.sol").open("a").write("// later")
    return output
compiler.compile_standard = slow
ensure_compiled(Project(Path.cwd()))
"""

    output = tiny.run(sys.executable, "-c", code, ok=False)

    assert "BuildError: A source or a setting changed while it was compiled." in output
    assert not tiny.artifacts_file.exists()
    assert not cache_is_fresh(tiny.root)


def test_drop_stale_cache__another_process_compiles__leaves_the_files_to_it(compiled: TinyCheckout) -> None:
    compiled.edit("contracts/Base.sol", "41", "42")
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import fcntl, sys; lock = open('.build/provenflow-lock', 'w'); fcntl.flock(lock, fcntl.LOCK_EX);"
            "print('held', flush=True); sys.stdin.read()",
        ],
        cwd=compiled.root,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        assert drop_stale_cache(compiled.root)
        assert compiled.artifacts_file.exists()
    finally:
        holder.communicate("")
    assert drop_stale_cache(compiled.root)
    assert not compiled.artifacts_file.exists()
    assert not (compiled.root / ".build" / "__local__.json").exists()


def test_artifacts_are_fresh__other_or_broken_document__is_not(compiled: TinyCheckout) -> None:
    good = compiled.artifacts
    assert artifacts_are_fresh(compiled.root)
    for broken in (
        "",
        "[]",
        json.dumps(good | {"format": "provenflow-artifacts/2"}),
        json.dumps(good | {"inputs": ""}),
    ):
        compiled.artifacts_file.write_text(broken)
        assert not artifacts_are_fresh(compiled.root)


def test_build_module__outside_a_checkout__says_so(tmp_path: Path, home: Path) -> None:
    copy = tmp_path / "installed" / "provenflow"
    copy.mkdir(parents=True)
    source = Path(__file__).resolve().parents[2] / "provenflow"
    for name in ("__init__", "build", "errors", "files", "toolchain"):
        (copy / f"{name}.py").write_text((source / f"{name}.py").read_text())

    done = bare_run(copy.parent, home, sys.executable, "-m", "provenflow.build")

    assert done.returncode == 2
    assert done.stderr == "error: There are no sources to compile here. Run it in a checkout of provenflow.\n"
