"""Skills' scripts as modules: `from jupyter_agent_skills.exploring_tables import overview`.

An import works in the live kernel, stays the same on every machine, and can be read before it
runs, which no path of a script could. Only source files that belong to a skill in use are
imported, and always from their source: compiled files, which no digest covers, are neither read
nor written.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jupyter_agent.skills.discovery import Catalogue, Skill

MODULE = "jupyter_agent_skills"


class SkillFinder:
    """Finds `jupyter_agent_skills`, a package for each skill in it, and their scripts.

    Args:
        catalogue: Gives the skills that are in use, asked when a skill is imported.
    """

    def __init__(self, catalogue: Callable[[], Catalogue]) -> None:
        self.catalogue = catalogue
        self._skills: dict[str, Skill] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        top, _, rest = fullname.partition(".")
        if top != MODULE:
            return None
        if not rest:
            return _package(fullname, _Top(self))
        if "." not in rest:
            skill = self._skill(rest)
            return (
                _package(fullname, None, skill.folder / "scripts", skill.folder) if skill else None
            )
        spec = self._script(fullname, rest, path or ())
        if spec is None:  # and nobody else may look: they would follow links and read caches
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)
        return spec

    def path(self, name: str) -> str:
        """The real path of a file of a skill: `path("exploring-tables/references/x.md")`.

        Raises:
            FileNotFoundError: There is no such skill or file; the message says which there are.
        """
        from jupyter_agent.errors import ConfigError, ToolError
        from jupyter_agent.skills.session import checked, file_of

        first, _, inner = name.removeprefix("skill:").partition("/")
        try:
            skill = checked(self.catalogue().find(first))
            return str(file_of(skill, inner) if inner else skill.folder)
        except (ConfigError, ToolError) as error:
            raise FileNotFoundError(str(error)) from None

    def _skill(self, word: str) -> Skill | None:
        from jupyter_agent.skills.prompt import module_of

        catalogue = self.catalogue()
        for skill in catalogue.skills:
            if module_of(skill.name) == f"{MODULE}.{word}":
                self._skills[word] = skill
                return skill
        if any(module_of(skill.name) == f"{MODULE}.{word}" for skill in catalogue.untrusted):
            raise ImportError(f"The skill {word} is not trusted: %agent skills trust NAME")
        return None

    def _script(self, fullname: str, rest: str, path: Sequence[str]) -> ModuleSpec | None:
        from jupyter_agent.errors import ToolError
        from jupyter_agent.skills.folder import contents
        from jupyter_agent.skills.session import checked

        skill = self._skills.get(rest.partition(".")[0])
        if skill is None:
            return None
        try:
            known = {resource.path for resource in contents(checked(skill).folder).resources}
        except (ToolError, ValueError) as error:
            raise ImportError(str(error)) from None
        name = rest.rpartition(".")[2]
        for folder in map(Path, path):
            inner = folder.relative_to(skill.folder).as_posix().removeprefix(".")
            inner = f"{inner}/{name}" if inner else name
            for file in (f"{inner}.py", f"{inner}/__init__.py"):
                if file in known:
                    return _source(fullname, skill.folder / file)
            if any(one.startswith(f"{inner}/") for one in known):
                return _package(fullname, None, folder / name)
        return None


def install(catalogue: Callable[[], Catalogue]) -> SkillFinder:
    """Make skills importable in this process, with this catalogue. A former one is replaced."""
    uninstall()
    finder = SkillFinder(catalogue)
    sys.meta_path.insert(0, finder)
    return finder


def uninstall() -> None:
    """Take the finder and what it imported out of this process."""
    sys.meta_path[:] = [one for one in sys.meta_path if not isinstance(one, SkillFinder)]
    forget()


def forget() -> None:
    """Forget the imported modules, so that the next import reads the files anew."""
    for name in [name for name in sys.modules if name.partition(".")[0] == MODULE]:
        del sys.modules[name]


class _Top:
    """Makes the module `jupyter_agent_skills`, which holds nothing but `path`."""

    def __init__(self, finder: SkillFinder) -> None:
        self._finder = finder

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        module.__doc__ = "The files of skills: path('NAME/scripts/x.py'), and their scripts."
        vars(module)["path"] = self._finder.path


class _FromSource(SourceFileLoader):
    """Compiles the source each time."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


def _source(fullname: str, file: Path) -> ModuleSpec | None:
    spec = spec_from_file_location(fullname, file, loader=_FromSource(fullname, str(file)))
    if spec is not None:
        spec.cached = None
    return spec


def _package(fullname: str, loader: object, *folders: Path) -> ModuleSpec:
    spec = ModuleSpec(fullname, loader, is_package=True)  # type: ignore[arg-type]
    spec.submodule_search_locations = [str(folder) for folder in folders]
    return spec
