"""`fsdyno env`: what this machine can measure. Prints the agent's survey and probes nothing itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fsdyno.units import show_bytes

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text

Survey = dict[str, Any]


def render(survey: Survey) -> RenderableType:
    """The survey as aligned tables, from the host to the folders of the agent."""
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = []
    for title, table in (
        ("host", _host(survey["host"])),
        ("file systems", _stackable(survey, survey["filesystems"])),
        *((("layers below them", _stackable(survey, survey["layers"])),) if survey.get("layers") else ()),
        ("places where trials run", _abilities(survey["places"])),
        ("kernels for guests", _kernels(survey)),
        ("kernel features", _abilities(survey["features"])),
        ("tools", _tools(survey["tools"])),
        ("folders of the agent", _folders(survey["folders"])),
    ):
        parts += [Text(title, style="bold"), table, Text()]
    return Group(*parts[:-1])


def _grid() -> Table:
    from rich.table import Table

    return Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)


def _host(host: dict[str, Any]) -> Table:
    from rich.text import Text

    table = _grid()
    machine = f"{host['cpus']} × {host['cpu']}, {show_bytes(host['memory'])} of memory, {host['machine']}"
    for key, value in (
        ("name", host["name"]),
        ("system", f"{host['distribution']}, kernel {host['kernel']}"),
        ("machine", machine),
        ("hypervisor", host.get("hypervisor") or "none seen"),
        ("root", "yes" if host["root"] else "no: file systems cannot be made or mounted"),
    ):
        table.add_row(Text(f"  {key}", style="dim"), Text(value))
    return table


def _stackable(survey: Survey, abilities: list[dict[str, Any]]) -> Table:
    """File systems, or layers: what each place can do with them, and which tools are missing."""
    from rich.text import Text

    table = _grid()
    for fs in abilities:
        for place, ability in fs["places"].items():
            missing = [
                f"no {purpose}: {name} is missing (install the package {survey['tools'][name]['package']})"
                for name, purpose in fs["tools"].items()
                if name in survey["tools"] and not survey["tools"][name].get("path")
            ]
            driver = f"driver {fs['driver']}" if fs.get("driver") else None
            found = [driver, *(missing or [ability.get("detail")])]
            detail = "; ".join(filter(None, found)) if ability["able"] else _why(ability)
            table.add_row(f"  {fs['name']}", _mark(ability["able"]), place, Text(detail))
    return table


def _kernels(survey: Survey) -> Table:
    from rich.text import Text

    table = _grid()
    for kernel in survey.get("kernels", []):
        table.add_row(Text(f"  {kernel['release']}"), Text(kernel["source"]))
    if not table.rows:
        detail = "`fsdyno guest setup` gets one, and so does the first run that needs it"
        table.add_row(Text("  none"), Text(detail))
    return table


def _abilities(abilities: dict[str, Any]) -> Table:
    from rich.text import Text

    table = _grid()
    for name, ability in abilities.items():
        detail = (ability.get("detail") or "") if ability["able"] else _why(ability)
        table.add_row(Text(f"  {name}"), _mark(ability["able"]), Text(detail))
    return table


def _tools(tools: dict[str, Any]) -> Table:
    from rich.text import Text

    table = _grid()
    for name, tool in tools.items():
        there = bool(tool.get("path"))
        detail = (
            tool.get("version") or tool.get("path") if there else f"install the package {tool['package']}"
        )
        table.add_row(Text(f"  {name}"), _mark(there), Text(detail or ""))
    return table


def _folders(folders: dict[str, Any]) -> Table:
    from rich.text import Text

    table = _grid()
    table.add_row(Text("  state", style="dim"), Text(folders["state"]))
    room = f"{folders['work']}  ({show_bytes(folders['free'])} free on {folders['filesystem']})"
    table.add_row(Text("  work", style="dim"), Text(room))
    if folders.get("problem"):
        table.add_row(Text("  problem", style="red"), Text(_sentence(folders["problem"])))
    return table


def _mark(able: bool) -> Text:
    from rich.text import Text

    return Text("yes", style="green") if able else Text("no", style="red")


def _why(ability: dict[str, Any]) -> str:
    reason = ability.get("reason")
    return _sentence(reason) if reason else "no reason given"


def _sentence(reason: dict[str, Any]) -> str:
    advice = reason.get("advice")
    return f"{reason['message']}; {advice}" if advice else str(reason["message"])
