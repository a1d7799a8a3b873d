"""``microcell locations``: a service that gives devices locations shared by at least k of them."""

import json as json_module
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
from microcell.cli.errors import Command, CommandGroup, handle_errors
from microcell.cli.options import Force, Json, Quiet, epilog, with_read_options
from microcell.errors import OptionError, TooFewRecordsError

if TYPE_CHECKING:
    from microcell.locations import Anonymizer, Client, SimulationResult

__all__ = ["COMMANDS", "app"]

# Secrets come from the environment: a command line is visible to all users of the machine.
KEY_VARIABLE = "MICROCELL_LOCATIONS_KEY"
OPERATOR_VARIABLE = "MICROCELL_LOCATIONS_OPERATOR"

_DATABASE = "sqlite:///locations.db"
_URL_HELP = (
    "sqlite:///FILE or postgresql://USER@HOST/NAME; keep the password in ~/.pgpass, not here."
)
_Database = Annotated[str, typer.Option(metavar="URL", help=_URL_HELP)]
_K = Annotated[
    int, typer.Option("-k", min=2, help="Minimum number of devices that share a location.")
]
_OptionalK = Annotated[
    int | None,
    typer.Option(
        "-k",
        min=2,
        help="Minimum number of devices that share a location (default: that of the database).",
    ),
]
_Seed = Annotated[int, typer.Option(help="Random seed.")]


@handle_errors
def serve(
    database: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help=f"{_URL_HELP} Default: {_DATABASE}, or memory with --demo.",
            show_default=False,
        ),
    ] = None,
    k: Annotated[
        int | None,
        typer.Option(
            "-k",
            min=2,
            help="Minimum number of devices that share a location. Default: 100, or 10 with "
            "--demo.",
            show_default=False,
        ),
    ] = None,
    host: Annotated[
        str, typer.Option(help="Address to listen on; 0.0.0.0 for all interfaces.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 for any free port.")] = 8000,
    share: Annotated[
        float,
        typer.Option(
            help="Rebuild all cells once this share of the devices has changed and no difference "
            "from earlier publications would expose devices."
        ),
    ] = 0.5,
    spare: Annotated[
        float,
        typer.Option(
            help="Make cells larger than the minimum by this share, so that they survive some "
            "cancellations."
        ),
    ] = 0.05,
    colluders: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Number of devices that may collude against the others; cells are larger than k "
            "by this number. Default: 5 % of k, rounded up.",
            show_default=False,
        ),
    ] = None,
    reach: Annotated[
        float,
        typer.Option(
            help="Maximum distance in kilometres between a device and its location; isolated "
            "devices wait."
        ),
    ] = 100.0,
    window: Annotated[
        int, typer.Option(min=1, help="Maximum number of publications with the same alias.")
    ] = 30,
    period: Annotated[
        float | None,
        typer.Option(
            help="Seconds between publications. Default: 86400 (a day), or 10 with --demo.",
            show_default=False,
        ),
    ] = None,
    hold: Annotated[
        bool,
        typer.Option("--hold", help="Make new devices wait for the next publication."),
    ] = False,
    demo: Annotated[
        bool,
        typer.Option(
            "--demo",
            help="Run with simulated devices and a temporary key; the data cannot be read after "
            "the service stops.",
        ),
    ] = False,
    proxy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ADDRESS",
            help="Trusted proxy whose X-Forwarded-For header is used; repeatable.",
            show_default=False,
        ),
    ] = None,
    rate: Annotated[
        float, typer.Option(help="Requests per second from one address; 0 for no limit.")
    ] = 20.0,
    sign_up_rate: Annotated[
        float, typer.Option(help="Sign-ups per second from one address; 0 for no limit.")
    ] = 0.2,
    open_metrics: Annotated[
        bool, typer.Option("--open-metrics", help="Serve /metrics without the operator's token.")
    ] = False,
    log_requests: Annotated[
        bool,
        typer.Option(
            "--log-requests/--no-log-requests",
            help="Log method, route, status and time of each request.",
        ),
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Serve the API and the web page until Ctrl-C or SIGTERM."""
    messages = Messages(quiet)
    token = os.environ.get(OPERATOR_VARIABLE, "").strip()
    settings = locations.Settings(
        operator=token or secrets.token_urlsafe(24),
        open_metrics=open_metrics,
        rate=rate,
        sign_up_rate=sign_up_rate,
        log_requests=log_requests,
    )
    listener = locations.listen_on(host, port)
    database = database or ("sqlite://" if demo else _DATABASE)
    k = k or (10 if demo else 100)
    options = {
        "share": share,
        "spare": spare,
        "colluders": colluders,
        "reach": reach,
        "window": window,
        "period": period or (10.0 if demo else 86_400.0),
        "hold": hold,
    }
    with (
        closing(listener),
        _open(messages, database, k, demo=demo, **options) as anonymizer,
        _people(messages, anonymizer, demo=demo),
    ):
        _configure_logging()
        if not token:
            messages.info(
                f"operator's token for this run ({OPERATOR_VARIABLE} is not set): "
                f"{settings.operator}"
            )
        address, number = listener.getsockname()[:2]
        url = f"http://{f'[{address}]' if ':' in address else address}:{number}/"
        if demo:  # the page reads the token and signs in; a fragment is not sent to servers
            url += f"#operator={settings.operator}"
        locations.serve(
            locations.create_app(anonymizer, settings),
            listener,
            proxies=proxy or (),
            ready=lambda: messages.info(f"serving on {url} with k = {k}; press Ctrl-C to stop"),
        )
    messages.info("stopped")


@handle_errors
def key() -> None:
    """Print a new encryption key. Keep it safe: without it the database cannot be read."""
    print_data(b64encode(locations.new_key()).decode())


@handle_errors
@with_read_options
def import_(
    *,
    read_options: Mapping[str, Any],
    people: Annotated[
        Path,
        typer.Argument(metavar="TABLE", help="Table with one row per device.", show_default=False),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE.csv",
            help="Output with row, pseudonym and token of each device.",
        ),
    ],
    database: _Database = _DATABASE,
    k: _OptionalK = None,
    latitude: Annotated[
        str, typer.Option(metavar="NAME", help="Column of latitudes in degrees.")
    ] = "latitude",
    longitude: Annotated[
        str, typer.Option(metavar="NAME", help="Column of longitudes in degrees.")
    ] = "longitude",
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Sign up a device for each row of a table. The service must be stopped."""
    messages = Messages(quiet)
    locations.check_output(output, force=force, sources=[people])
    with messages.progress(), _open(messages, database, k, background=False) as anonymizer:
        summary = locations.import_people(
            anonymizer,
            mc.read(people, **read_options),
            output,
            latitude=latitude,
            longitude=longitude,
            force=force,
        )
    _print_summary(
        messages, json, signed_up=summary.devices, waiting=summary.waiting, accounts=str(output)
    )
    messages.info(
        f"{output} contains the devices' tokens, which cannot be recovered. "
        "Anyone who reads it can act as these devices."
    )


@handle_errors
def export(
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="FILE.csv", help="Output with pseudonyms and locations."
        ),
    ],
    database: _Database = _DATABASE,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Export the shared location that each device uses. The service must be stopped."""
    messages = Messages(quiet)
    locations.check_output(output, force=force)
    with messages.progress(), _open(messages, database, None, background=False) as anonymizer:
        summary = locations.export_places(anonymizer, output, force=force)
    _print_summary(
        messages, json, devices=summary.devices, waiting=summary.waiting, locations=str(output)
    )


@handle_errors
def simulate(
    devices: Annotated[
        int, typer.Option(min=1, help="Number of devices that sign up first.")
    ] = 10_000,
    k: _K = 100,
    days: Annotated[
        int, typer.Option(min=0, help="Number of days with sign-ups, moves and cancellations.")
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
            help="Empty database to use (default: a temporary one).",
            show_default=False,
        ),
    ] = None,
    url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="URL of a running service to simulate against.",
            show_default=False,
        ),
    ] = None,
    seed: _Seed = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Simulate a city that uses the service, check the guarantee and measure distances."""
    messages = Messages(quiet)
    if url is not None and database is not None:
        raise OptionError(
            "--database and --url cannot be combined: a running service has its own database.",
            code="option.conflict",
            option="database",
        )
    with messages.progress(), _service(messages, url, database, k, seed) as service:
        result = locations.simulate(service, devices, days=days, changes=changes, seed=seed)
    if json:
        content = {**asdict(result), "distortion_ratio": result.distortion_ratio}
        print_data(json_module.dumps(content, indent=2))
    else:
        print_facts(_describe_result(result))
    if result.cells == 0:
        raise TooFewRecordsError(
            f"No cell was published, so all {result.devices:,} devices wait. Simulate more devices "
            "or a smaller -k.",
            code="guarantee.too_few_records",
            records=result.devices,
            k=result.k,
        )


COMMANDS: Mapping[str, tuple[Callable[..., None], Sequence[str]]] = {
    "serve": (
        serve,
        (
            "microcell locations serve --database sqlite:///locations.db -k 100 --port 8000",
            "microcell locations serve --demo",
        ),
    ),
    "key": (key, (f"export {KEY_VARIABLE}=$(microcell locations key)",)),
    "import": (import_, ("microcell locations import people.csv -k 100 -o accounts.csv",)),
    "export": (export, ("microcell locations export -o places.csv",)),
    "simulate": (simulate, ("microcell locations simulate --devices 100000",)),
}
"""Commands of the group with their examples, in the order shown by --help."""

app = typer.Typer(
    name="locations",
    cls=CommandGroup,
    help="Location anonymizer: run the service, import and export devices, simulate.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
for _name, (_command, _examples) in COMMANDS.items():
    app.command(_name, cls=Command, epilog=epilog(_examples))(_command)


# -------------------------------------------------------------------------------- helpers


@contextmanager
def _open(
    messages: Messages, database: str, k: int | None, *, demo: bool = False, **options: Any
) -> "Iterator[Anonymizer]":
    """Open the anonymizer on a database and close it at the end."""
    secret = _read_key(messages, demo=demo)
    with messages.progress():
        anonymizer = locations.Anonymizer.open(database, k, key=secret, **options)
    try:
        yield anonymizer
    finally:
        anonymizer.close()


@contextmanager
def _people(messages: Messages, anonymizer: "Anonymizer", *, demo: bool) -> Iterator[None]:
    """Fill the service with simulated people who keep changing, for a demonstration."""
    if not demo or anonymizer.status().devices:
        yield
        return
    with messages.progress():
        people = locations.Demonstration(anonymizer)
    people.start()
    try:
        yield
    finally:
        people.stop()


def _read_key(messages: Messages, *, demo: bool) -> bytes | None:
    """Return the key from the environment, or None for a demonstration without one."""
    text = os.environ.get(KEY_VARIABLE, "").strip()
    if text:
        return locations.read_key(text)
    if not demo:
        raise OptionError(
            f"{KEY_VARIABLE} is not set, but exact locations must be encrypted. Create a key with "
            "`microcell locations key`, or use --demo to try the service without one.",
            code="option.missing",
            option=KEY_VARIABLE,
        )
    messages.info("demo: the key is discarded at the end, so no device can be looked up after that")
    return None


@contextmanager
def _service(
    messages: Messages, url: str | None, database: str | None, k: int, seed: int
) -> "Iterator[Anonymizer | Client]":
    """Connect to a running service, or open one in this process on an empty database."""
    if url is not None:
        with locations.Client(
            url, operator=os.environ.get(OPERATOR_VARIABLE) or None, retries=1000
        ) as client:
            yield client
        return
    if database is not None:
        with _open(messages, database, k, seed=seed, background=False) as anonymizer:
            if anonymizer.status().devices:
                raise OptionError(
                    "The database already contains devices. Simulate on an empty database, so "
                    "that simulated and real devices do not mix.",
                    code="option.conflict",
                    option="database",
                )
            yield anonymizer
        return
    with TemporaryDirectory() as folder:
        opened = locations.Anonymizer.open(
            f"sqlite:///{folder}/simulated.db",
            k,
            key=locations.new_key(),
            seed=seed,
            background=False,
        )
        with closing(opened) as anonymizer:
            yield anonymizer


def _configure_logging() -> None:
    """Log the service to stderr, and other libraries only from warnings on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logging.getLogger().handlers = [handler]
    logging.getLogger("microcell").setLevel(logging.INFO)


def _print_summary(messages: Messages, json: bool, **facts: int | str) -> None:
    if json:
        print_data(json_module.dumps(facts))
    messages.facts(
        (name.replace("_", " "), f"{value:,}" if isinstance(value, int) else value)
        for name, value in facts.items()
    )


def _describe_result(result: "SimulationResult") -> Iterator[tuple[str, str]]:
    days = f"{result.days} day{'' if result.days == 1 else 's'}"
    yield "devices", f"{result.devices:,} after {days}"
    yield (
        "changes",
        f"{result.sign_ups:,} sign-ups, {result.moves:,} moves, "
        f"{result.cancellations:,} cancellations",
    )
    yield (
        "cells",
        f"{result.cells:,}, the smallest with {result.smallest_cell or 0:,} devices "
        f"(k = {result.k:,})",
    )
    if result.waiting:
        yield "waiting", f"{result.waiting:,} devices, because too few others are nearby"
    if result.smallest_shared is not None:
        yield "guarantee", f"each location is shared by at least {result.smallest_shared:,} devices"
    if result.smallest_history is not None:
        yield "over time", f"each history is shared by at least {result.smallest_history:,} devices"
    if result.rebuilds is not None:
        yield "rebuilds", f"{result.rebuilds:,}, with {result.merges or 0:,} merges in between"
    if result.mean is not None:
        yield (
            "distance",
            f"{result.mean:.3f} km on average, {result.root_mean_square:.3f} km root mean square",
        )
    if result.mdav_mean is not None:
        yield (
            "with MDAV",
            f"{result.mdav_mean:.3f} km on average, "
            f"{result.mdav_root_mean_square:.3f} km root mean square",
        )
    if result.distortion_ratio is not None:
        yield (
            "distortion",
            f"{100 * (result.distortion_ratio - 1):+.1f} % compared with MDAV (squared distances)",
        )
    yield "seconds", f"{result.seconds:.1f}"
