"""Options that belong together, and the message about one without the option that it
needs.
"""

from keras_sat.commands.flags import flag_of

# The options of work on a Ray cluster, see `keras_sat.scale.ray_data`.
WORKERS = ("ray", "worker_cpus", "worker_gpus", "part_size", "output", "file_type")


def parted(options, *groups):
    """Part a dict of options into a dict for each group of names, and one of the rest.

    >>> parted({"ray": "local", "csv": "a.csv"}, WORKERS)
    [{'ray': 'local'}, {'csv': 'a.csv'}]
    """
    parts = [{name: options[name] for name in names if name in options} for names in groups]
    grouped_names = {name for names in groups for name in names}
    rest = {name: value for name, value in options.items() if name not in grouped_names}
    return [*parts, rest]


def reject_alone(name, needed):
    """Raise ValueError: the option `name` was passed without the option `needed`."""
    raise ValueError(
        f"{flag_of(name)} has no effect without {flag_of(needed)}. Pass both or neither."
    )


def check_workers(workers):
    """Raise ValueError if options of WORKERS were passed without --ray."""
    if workers and "ray" not in workers:
        reject_alone(next(iter(workers)), "ray")
