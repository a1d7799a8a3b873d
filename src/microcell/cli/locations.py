"""``microcell locations``: devices get a location to use that k of them share."""

import json as jsons
import logging
import os
import secrets
import sys
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

import microcell as mc
from microcell import locations
from microcell.cli.console import Messages, print_data, print_facts
from microcell.cli.errors import handle_errors
from microcell.cli.options import Force, Json, Quiet, epilog, with_read_options
from microcell.errors import OptionError

if TYPE_CHECKING:
    from microcell.locations import Anonymizer, Client, Simulated

__all__ = ["COMMANDS", "app"]

KEY, OPERATOR = "MICROCELL_LOCATIONS_KEY", "MICROCELL_LOCATIONS_OPERATOR"
"""The environment variables with the secrets: a command line is seen by all who use the machine."""

_DATABASE = "sqlite:///locations.db"
_URLS = (
    "sqlite:///FILE, or postgresql://USER@HOST/NAME; the password is better in ~/.pgpass than here."
)
_Database = Annotated[str, typer.Option(metavar="URL", help=_URLS)]
_K = Annotated[
    int, typer.Option("-k", min=2, help="Least number of devices that share a location.")
]
_SameK = Annotated[
    int | None,
    typer.Option(
        "-k",
        min=2,
        help="Least number of devices that share a location; that of the database if left out.",
    ),
]
_Seed = Annotated[int, typer.Option(help="For what chance decides.")]


@handle_errors
def serve(
    database: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help=f"{_URLS} Default: {_DATABASE}, or memory alone for a demonstration.",
            show_default=False,
        ),
    ] = None,
    k: _K = 100,
    host: Annotated[
        str, typer.Option(help="The address to listen on; 0.0.0.0 for all.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port to listen on; 0 for any.")] = 8000,
    share: Annotated[
        float,
        typer.Option(
            help="Cells are rebuilt when this share of devices has changed since the last time."
        ),
    ] = 0.05,
    spare: Annotated[
        float,
        typer.Option(
            help="Cells are made larger than k by this share, so that they outlive some cancellations."
        ),
    ] = 0.01,
    demo: Annotated[
        bool,
        typer.Option(
            "--demo", help="Try things out without a key: nothing can be read again after the end."
        ),
    ] = False,
    proxy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ADDRESS",
            help="A proxy in front whose X-Forwarded-For is believed; repeatable.",
            show_default=False,
        ),
    ] = None,
    rate: Annotated[
        float, typer.Option(help="Requests a second from one address; 0 for no limit.")
    ] = 20.0,
    sign_up_rate: Annotated[
        float, typer.Option(help="Sign-ups a second from one address; 0 for no limit.")
    ] = 0.2,
    open_metrics: Annotated[
        bool, typer.Option("--open-metrics", help="Show /metrics without the operator's token.")
    ] = False,
    log_requests: Annotated[
        bool,
        typer.Option(
            "--log-requests/--no-log-requests",
            help="Log method, route, status and time of requests.",
        ),
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Serve the API and the page until Ctrl-C or SIGTERM."""
    messages = Messages(quiet)
    token = os.environ.get(OPERATOR, "").strip()
    settings = locations.Settings(
        operator=token or secrets.token_urlsafe(24),
        open_metrics=open_metrics,
        rate=rate,
        sign_up_rate=sign_up_rate,
        log_requests=log_requests,
    )
    listener = locations.listen_on(host, port)
    database = database or ("sqlite://" if demo else _DATABASE)
    with (
        closing(listener),
        _open(messages, database, k, demo=demo, share=share, spare=spare) as anonymizer,
    ):
        _begin_log()
        if not token:
            messages.info(
                f"the operator's token, this time only ({OPERATOR} is not set): {settings.operator}"
            )
        shown, number = listener.getsockname()[:2]
        place = f"http://{f'[{shown}]' if ':' in shown else shown}:{number}/"
        locations.serve(
            locations.create_app(anonymizer, settings),
            listener,
            proxies=proxy or (),
            ready=lambda: messages.info(f"serving on {place} with k = {k}. Ctrl-C stops it."),
        )
    messages.info("stopped")


@handle_errors
def key() -> None:
    """Print a new key for exact locations, to be kept safe: without it the database cannot be read."""
    print_data(b64encode(locations.new_key()).decode())


@handle_errors
@with_read_options
def import_(
    *,
    read_options: Mapping[str, Any],
    people: Annotated[
        Path,
        typer.Argument(
            metavar="TABLE", help="One row a device, with its place.", show_default=False
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE.csv",
            help="Where to write row, pseudonym and token of each.",
        ),
    ],
    database: _Database = _DATABASE,
    k: _SameK = None,
    latitude: Annotated[
        str, typer.Option(metavar="NAME", help="The column of latitudes, in degrees.")
    ] = "latitude",
    longitude: Annotated[
        str, typer.Option(metavar="NAME", help="The column of longitudes.")
    ] = "longitude",
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Sign up all rows of a table, while the service does not run."""
    messages = Messages(quiet)
    locations.check_output(output, force=force, sources=[people])
    with messages.progress(), _open(messages, database, k, background=False) as anonymizer:
        done = locations.import_people(
            anonymizer,
            mc.read(people, **read_options),
            output,
            latitude=latitude,
            longitude=longitude,
            force=force,
        )
    _tell(messages, json, signed_up=done.devices, waiting=done.waiting, accounts=str(output))
    messages.info(
        f"{output} holds the devices' tokens, which cannot be had again. Whoever reads it speaks for them."
    )


@handle_errors
def export(
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="FILE.csv", help="Where to write pseudonyms and locations."
        ),
    ],
    database: _Database = _DATABASE,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write the location that each device uses, while the service does not run."""
    messages = Messages(quiet)
    locations.check_output(output, force=force)
    with messages.progress(), _open(messages, database, None, background=False) as anonymizer:
        done = locations.export_places(anonymizer, output, force=force)
    _tell(messages, json, devices=done.devices, waiting=done.waiting, locations=str(output))


@handle_errors
def simulate(
    devices: Annotated[int, typer.Option(min=1, help="Devices that sign up at first.")] = 10_000,
    k: _K = 100,
    days: Annotated[
        int, typer.Option(min=0, help="Days of sign-ups, moves and cancellations.")
    ] = 3,
    changes: Annotated[
        float,
        typer.Option(
            min=0.0, max=1.0, help="Share of devices that sign up, move or cancel each day."
        ),
    ] = 0.06,
    database: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="An empty database; left out, one that is thrown away.",
            show_default=False,
        ),
    ] = None,
    url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="A service that runs, in place of one in this process.",
            show_default=False,
        ),
    ] = None,
    seed: _Seed = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Simulate a city that uses the service, and look at what its people get."""
    messages = Messages(quiet)
    if url is not None and database is not None:
        raise OptionError(
            "--database and --url exclude each other: a service that runs has its own database."
        )
    with messages.progress(), _service(messages, url, database, k, seed) as service:
        found = locations.simulate(service, devices, days=days, changes=changes, seed=seed)
    if json:
        print_data(
            jsons.dumps({**asdict(found), "distortion_ratio": found.distortion_ratio}, indent=2)
        )
        return
    print_facts(_facts(found))


COMMANDS: Mapping[str, tuple[Callable[..., None], Sequence[str]]] = {
    "serve": (
        serve,
        (
            "microcell locations serve --database sqlite:///locations.db -k 100 --port 8000",
            "microcell locations serve --demo -k 5",
        ),
    ),
    "key": (key, (f"export {KEY}=$(microcell locations key)",)),
    "import": (import_, ("microcell locations import people.csv -k 100 -o accounts.csv",)),
    "export": (export, ("microcell locations export -o places.csv",)),
    "simulate": (simulate, ("microcell locations simulate --devices 100000",)),
}
"""The commands of the group, each with its examples, in the order that help shows."""

app = typer.Typer(
    name="locations",
    help="Locations to use in place of exact ones: a service for devices, and what its operator needs.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
for _name, (_command, _examples) in COMMANDS.items():
    app.command(_name, epilog=epilog(_examples))(_command)


# ---------------------------------------------------------------------------------------------- what commands share


@contextmanager
def _open(
    messages: Messages, database: str, k: int | None, *, demo: bool = False, **options: Any
) -> "Iterator[Anonymizer]":
    """The anonymizer on a database, closed at the end."""
    secret = _key(messages, demo=demo)
    with messages.progress():
        anonymizer = locations.Anonymizer.open(database, k, key=secret, **options)
    try:
        yield anonymizer
    finally:
        anonymizer.close()


def _key(messages: Messages, *, demo: bool) -> bytes | None:
    """The key from the environment; None for a demonstration without one."""
    text = os.environ.get(KEY, "").strip()
    if text:
        return locations.read_key(text)
    if not demo:
        raise OptionError(
            f"{KEY} is not set: exact locations are kept encrypted, with a key that `microcell locations key` makes. "
            "To try things out without one, give --demo."
        )
    messages.info(
        "a demonstration: the key is thrown away at the end, and nobody can look up or be found again thereafter"
    )
    return None


@contextmanager
def _service(
    messages: Messages, url: str | None, database: str | None, k: int, seed: int
) -> "Iterator[Anonymizer | Client]":
    """What is simulated with: a service that runs, or one in this process on an empty database."""
    if url is not None:
        with locations.Client(
            url, operator=os.environ.get(OPERATOR) or None, retries=1000
        ) as client:
            yield client
        return
    if database is not None:
        with _open(messages, database, k, seed=seed) as anonymizer:
            if anonymizer.status().devices:
                raise OptionError(
                    "The database has devices already: simulated people are not put among real ones."
                )
            yield anonymizer
        return
    with TemporaryDirectory() as folder:
        opened = locations.Anonymizer.open(
            f"sqlite:///{folder}/simulated.db", k, key=locations.new_key(), seed=seed
        )
        with closing(opened) as anonymizer:
            yield anonymizer


def _begin_log() -> None:
    """Let the service log to stderr, a line each; other libraries only where something is wrong."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logging.getLogger().handlers = [handler]
    logging.getLogger("microcell").setLevel(logging.INFO)


def _tell(messages: Messages, json: bool, **facts: int | str) -> None:
    if json:
        print_data(jsons.dumps(facts))
    messages.facts(
        (name.replace("_", " "), f"{value:,}" if isinstance(value, int) else value)
        for name, value in facts.items()
    )


def _facts(found: "Simulated") -> Iterator[tuple[str, str]]:
    yield "devices", f"{found.devices:,} after {found.days} days"
    yield (
        "changes",
        f"{found.sign_ups:,} sign-ups, {found.moves:,} moves, {found.cancellations:,} cancellations",
    )
    yield (
        "cells",
        f"{found.cells:,}, the smallest of {found.least_size or 0:,} devices (k = {found.k:,})",
    )
    if found.least_shared is not None:
        yield "looked up", f"each location was given to {found.least_shared:,} devices or more"
    if found.rebuilds is not None:
        yield "rebuilds", f"{found.rebuilds:,}, and {found.merges or 0:,} cells merged between them"
    if found.mean is not None:
        yield (
            "distance",
            f"{found.mean:.3f} km on average, root mean squared {found.root_mean_square:.3f} km",
        )
    if found.mdav_mean is not None:
        yield (
            "by MDAV",
            f"{found.mdav_mean:.3f} km on average, root mean squared {found.mdav_root_mean_square:.3f} km",
        )
    if found.distortion_ratio is not None:
        yield (
            "distortion",
            f"{100 * (found.distortion_ratio - 1):+.1f} % beside MDAV's (squared distances)",
        )
    yield "seconds", f"{found.seconds:.1f}"
