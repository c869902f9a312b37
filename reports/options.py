"""Options of every command that writes reports."""

from typing import Annotated

import typer

Public = Annotated[
    bool, typer.Option("--public", help="Write report-public.html too, without what was measured on the data.")
]
Figures = Annotated[
    bool, typer.Option("--figures", help="Write the folder figures too: each as PNG, its numbers as CSV.")
]
