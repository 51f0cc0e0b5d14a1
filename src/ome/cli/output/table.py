"""Tables: three spaces between columns, no borders, one line a row in a pipe. Pure strings in, one string out.

On a terminal that is too narrow cells wrap, and when not even the headers fit each row becomes a list of fields
(spec/cli-runtime-and-wait.md section 1.2).
"""

from __future__ import annotations

from collections.abc import Sequence

from ome.cli.output.text import neutralise

GAP = "   "


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return GAP.join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()


def _natural_widths(rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]


def _narrowed(widths: list[int], minimums: Sequence[int], room: int) -> list[int] | None:
    """Column widths whose sum fits `room`, taken from the widest columns first; None when even the headers do not
    fit.
    """
    if sum(minimums) > room:
        return None
    widths = list(widths)
    while sum(widths) > room:
        wide = max((width, index) for index, width in enumerate(widths) if width > minimums[index])[1]
        widths[wide] -= 1
    return widths


def _pieces(word: str, width: int) -> list[str]:
    """A word cut to fit: after its last dot that fits once it has been broken, else in the middle."""
    found: list[str] = []
    while len(word) > width:
        dot = word.rfind(".", 0, width) + 1
        at = dot if dot else width
        found.append(word[:at])
        word = word[at:]
    return [*found, word] if word else found


def _wrapped(cell: str, width: int) -> list[str]:
    lines = [""]
    for word in cell.split():
        for number, piece in enumerate(_pieces(word, width)):
            joined = f"{lines[-1]} {piece}" if lines[-1] else piece
            if number == 0 and len(joined) <= width:
                lines[-1] = joined
            else:
                lines.append(piece)
    return lines


def _fields(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    label = max(len(name) for name in header)

    def block(row: Sequence[str]) -> str:
        return "".join(f"{name.ljust(label)} {cell}".rstrip() + "\n" for name, cell in zip(header, row, strict=True))

    return "\n".join(block(row) for row in rows)


def render_table(header: Sequence[str], rows: Sequence[Sequence[str]], width: int | None = None) -> str:
    """The table as text with a final line break. `width` is the terminal's, or None for a file or pipe."""
    safe = [[neutralise(cell) for cell in row] for row in rows]
    every = [list(header), *safe]
    widths = _natural_widths(every)
    gaps = len(GAP) * (len(header) - 1)
    if width is None or sum(widths) + gaps <= width:
        return "".join(_line(row, widths) + "\n" for row in every)
    narrowed = _narrowed(widths, [len(name) for name in header], width - gaps)
    if narrowed is None:
        return _fields(header, safe)
    lines = []
    for row in every:
        columns = [_wrapped(cell, narrowed[index]) for index, cell in enumerate(row)]
        height = max(len(column) for column in columns)
        lines += [
            _line([column[number] if number < len(column) else "" for column in columns], narrowed) + "\n"
            for number in range(height)
        ]
    return "".join(lines)
