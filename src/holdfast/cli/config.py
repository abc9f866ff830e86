"""
`holdfast config`: whether a file is right, and what a node would be told.

Nothing is started and no port is opened. `check` judges a file by itself, wherever it will be used;
`show` puts together what `serve` would with the same flags, variables and file.

Invariants:
    The cluster's secret is read to check it, and never shown: only where its file is.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

import typer

from holdfast.cli.node_flags import load_config, with_node_flags
from holdfast.cli.output import EXIT_FAILED, write_error, write_json, write_line, write_table
from holdfast.config.catalogue import CATALOGUE, Setting
from holdfast.config.node import NodeConfig, exposures_in, mistakes_in, secrets_in, shown_in
from holdfast.config.sources import DEFAULT, Origin
from holdfast.environment.secret_files import why_exposed

BY_THE_MEMBERS: Final = "by the members"
"""Of copies nobody has set: how many follows from who belongs to the cluster."""

_JSON = Annotated[bool, typer.Option("--json", help="For programs.")]


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    group = typer.Typer(no_args_is_help=True, help="The settings of a node.")
    group.command("check")(check)
    group.command("show")(show)
    app.add_typer(group, name="config")


def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A TOML file for --config.")],
    *,
    as_json: _JSON = False,
) -> None:
    """
    Say everything that is wrong with a file; exit code 0 if nothing is, else 1.

    What it lets others on the network read or do is no mistake: that is a warning, and so is a
    certificate that ends soon. One by which no member is linked is a mistake.

    The file is judged by itself, without flags and variables. That data and name are not in it is
    no mistake: they may differ from node to node and be given beside it.
    """
    problems = mistakes_in(file)
    warnings: list[str] = []
    if not problems:
        problems, warnings = _of_certificates(file)
        told = [why_exposed(it) for it in dict.fromkeys(secrets_in(file))]
        warnings = [*map(str, exposures_in(file)), *filter(None, told), *warnings]
    if as_json:
        write_json({"file": str(file), "problems": problems, "warnings": warnings})
    else:
        for problem in problems:
            write_error(f"holdfast: {problem}")
        for warning in warnings:
            write_error(f"holdfast: warning: {warning}")
        if not problems:
            write_line(f"{file}: nothing is wrong")
    if problems:
        raise typer.Exit(EXIT_FAILED)


def _of_certificates(file: Path) -> tuple[list[str], list[str]]:
    """What other members refuse in it, and what there is to be known of it else."""
    shown = shown_in(file)
    if not shown.tables:
        return [], []
    from holdfast.server.own_certificates import judge
    from holdfast.server.renewal import warnings_of

    judged = judge(shown)
    return judged.mistakes, judged.warnings + warnings_of(shown.tables.values())


@with_node_flags
def show(*, as_json: _JSON = False, flags: dict[str, Any], config: Path | None) -> None:
    """
    Show every setting of a node, its unit, and where its value comes from.

    It takes what serve takes: flags, else HOLDFAST_… in the environment, else the TOML file, else
    defaults.
    """
    settings = load_config(flags, config, [], is_data_needed=False)
    policies = _policies(settings)
    if as_json:
        found = [_as_json(it, settings) for it in CATALOGUE.values()]
        write_json({"settings": found, "policies": policies})
        return
    rows = [
        (it.name, _as_text(it, settings), it.unit, _from(settings.origins.get(it.path, DEFAULT)))
        for it in CATALOGUE.values()
    ]
    rows += [
        (f'policies."{it["pattern"]}".{it["key"]}', it["value"], "", f"file {it['place']}")
        for it in policies
    ]
    write_table(("setting", "value", "unit", "from"), rows)


def _policies(settings: NodeConfig) -> list[dict[str, object]]:
    """What the file says of destinations, and on which line."""
    file = settings.policies
    return [
        {
            "pattern": pattern,
            "key": key,
            "value": value,
            "revision": file.revision,
            "place": file.places.get((pattern, key), ""),
        }
        for pattern, values in file.values.items()
        for key, value in values.items()
    ]


def _from(origin: Origin) -> str:
    return f"{origin.kind} {origin.place}".rstrip()


def _as_text(setting: Setting, settings: NodeConfig) -> object:
    value = _plain(setting, settings)
    if value is None:
        return BY_THE_MEMBERS if setting.name == "copies" else None
    if isinstance(value, bool):
        return "true" if value else "false"
    return " ".join(value) if isinstance(value, list) else value


def _as_json(setting: Setting, settings: NodeConfig) -> dict[str, object]:
    origin = settings.origins.get(setting.path, DEFAULT)
    return {
        "setting": setting.name,
        "key": setting.path,
        "value": _plain(setting, settings),
        "unit": setting.unit,
        "from": origin.kind,
        "place": origin.place,
    }


def _plain(setting: Setting, settings: NodeConfig) -> str | float | list[str] | None:
    """The value as JSON knows it."""
    value = settings.value(setting.path)
    if setting.name == "copies":
        return value or None
    if setting.name == "data" and setting.path not in settings.origins:
        return None
    if isinstance(value, tuple):
        return [str(it) for it in value]
    return value if value is None or isinstance(value, str | int | float) else str(value)
