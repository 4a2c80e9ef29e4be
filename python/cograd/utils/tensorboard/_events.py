# SPDX-License-Identifier: BSD-3-Clause
"""Values as the messages of event files, by the classes of the package tensorboard."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

__all__ = [
    "count_curve",
    "curve",
    "histogram",
    "hparams",
    "layout",
    "mesh",
    "number",
    "picture",
    "raw_histogram",
    "sound",
    "tensor",
    "text",
]

_MANY = 127  # the most thresholds of a curve, as in torch


def _edges() -> Any:
    """Returns the default bins: 1e-12 * 1.1**k, of both signs, and 0."""
    up = 1e-12 * 1.1 ** np.arange(775)
    up = up[up < 1e20]
    return np.concatenate([-up[::-1], [0.0], up])


def checked_tag(tag: Any) -> str:
    """Returns the tag if it is a str."""
    if not isinstance(tag, str):
        raise TypeError(f"SummaryWriter: a tag must be a str, got {type(tag).__name__} {tag!r}")
    return tag


def _summary(**value: Any) -> Any:
    from tensorboard.compat.proto.summary_pb2 import Summary

    checked_tag(value["tag"])
    return Summary(value=[Summary.Value(**value)])


def _metadata(plugin: str, content: bytes = b"") -> Any:
    from tensorboard.compat.proto.summary_pb2 import SummaryMetadata

    data = SummaryMetadata.PluginData(plugin_name=plugin, content=content)
    return SummaryMetadata(plugin_data=data)


def _proto(array: Any) -> Any:
    from tensorboard.util.tensor_util import make_tensor_proto

    return make_tensor_proto(array)


def number(tag: str, value: float, new_style: bool, double: bool) -> Any:
    """Returns the message of a scalar; only the new style can hold 64 bits."""
    if not new_style and not double:
        return _summary(tag=tag, simple_value=value)
    array = np.array(value, np.float64 if double else np.float32)
    return _summary(tag=tag, tensor=_proto(array), metadata=_metadata("scalars"))


def tensor(tag: str, array: Any) -> Any:
    """Returns the message of any array."""
    return _summary(tag=tag, tensor=_proto(array), metadata=_metadata("tensor"))


def histogram(tag: str, values: Any, bins: Any, max_bins: int | None) -> Any:
    """Counts in bins; leaves out what is not finite, with a warning."""
    if values.dtype.kind not in "fiub":
        raise TypeError(f"add_histogram(): {tag!r} must be real numbers, got {values.dtype}")
    flat = values.reshape(-1).astype(np.float64)
    if flat.size == 0:
        raise ValueError(f"add_histogram(): the values of {tag!r} are empty")
    finite = flat[np.isfinite(flat)]
    if finite.size < flat.size:
        warnings.warn(
            f"SummaryWriter.add_histogram(): {flat.size - finite.size} of {flat.size} values of "
            f"{tag!r} are not finite and are left out",
            stacklevel=4,
        )
    if finite.size == 0:
        return raw_histogram(tag, 0.0, 0.0, 0, 0.0, 0.0, [0.0], [0.0])
    if isinstance(bins, str) and bins == "tensorflow":
        edges = _edges()
        counts, limits = np.histogram(np.clip(finite, edges[0], edges[-1]), edges)
    else:
        counts, limits = np.histogram(finite, bins)
    if max_bins is not None and len(counts) > max_bins:
        step = -(-len(counts) // max_bins)
        counts = np.add.reduceat(counts, np.arange(0, len(counts), step))
        limits = np.append(limits[:-1:step], limits[-1])
    used = np.flatnonzero(counts)
    first, last = (int(used[0]), int(used[-1]) + 1) if used.size else (0, 1)
    # A bucket before the first used one is empty, so that the first has a lower limit.
    limits, counts = limits[first : last + 1], np.append([0], counts[first:last])
    return raw_histogram(
        tag,
        finite.min(),
        finite.max(),
        finite.size,
        finite.sum(),
        np.dot(finite, finite),
        limits.tolist(),
        counts.tolist(),
    )


def raw_histogram(
    tag: str,
    low: Any,
    high: Any,
    num: Any,
    total: Any,
    squares: Any,
    limits: Sequence[float],
    counts: Sequence[float],
) -> Any:
    """Returns the message of a histogram that was counted elsewhere."""
    from tensorboard.compat.proto.summary_pb2 import HistogramProto

    histo = HistogramProto(
        min=low,
        max=high,
        num=num,
        sum=total,
        sum_squares=squares,
        bucket_limit=limits,
        bucket=counts,
    )
    return _summary(tag=tag, histo=histo)


def picture(tag: str, height: int, width: int, channels: int, data: bytes) -> Any:
    """Returns the message of an encoded picture or film."""
    from tensorboard.compat.proto.summary_pb2 import Summary

    image = Summary.Image(
        height=height, width=width, colorspace=channels, encoded_image_string=data
    )
    return _summary(tag=tag, image=image)


def sound(tag: str, rate: int, frames: int, data: bytes) -> Any:
    """Returns the message of a WAV file."""
    from tensorboard.compat.proto.summary_pb2 import Summary

    audio = Summary.Audio(
        sample_rate=rate,
        num_channels=1,
        length_frames=frames,
        encoded_audio_string=data,
        content_type="audio/wav",
    )
    return _summary(tag=tag, audio=audio)


def text(tag: str, words: str) -> Any:
    """Returns the message of a text in Markdown."""
    array = np.array([words.encode()], dtype=object)
    return _summary(
        tag=f"{checked_tag(tag)}/text_summary", tensor=_proto(array), metadata=_metadata("text")
    )


def curve(tag: str, thresholds: int, *rows: Any) -> Any:
    """Returns the message of a precision-recall curve from tp, fp, tn, fn, precision and recall."""
    from tensorboard.plugins.pr_curve import metadata

    return _summary(
        tag=tag,
        tensor=_proto(np.stack([np.asarray(r, np.float32) for r in rows])),
        metadata=metadata.create_summary_metadata("", "", min(thresholds, _MANY)),
    )


def count_curve(labels: Any, predictions: Any, thresholds: int, weights: Any) -> tuple[Any, ...]:
    """Counts tp, fp, tn, fn, precision and recall at thresholds from 0 to 1."""
    n = min(thresholds, _MANY)
    scores = predictions.reshape(-1).astype(np.float64)
    truth = labels.reshape(-1).astype(np.float64)
    if scores.shape != truth.shape:
        raise ValueError(f"add_pr_curve(): {truth.size} labels, but {scores.size} predictions")
    if not ((scores >= 0) & (scores <= 1)).all():
        raise ValueError("add_pr_curve(): predictions must be from 0 to 1")
    weight = np.broadcast_to(1.0 if weights is None else weights, truth.shape)
    at = np.floor(scores * (n - 1)).astype(np.int64)
    hits = np.bincount(at, truth * weight, n)[::-1].cumsum()[::-1]
    misses = np.bincount(at, (1 - truth) * weight, n)[::-1].cumsum()[::-1]
    tn, fn = misses[0] - misses, hits[0] - hits
    precision = hits / np.maximum(1e-7, hits + misses)
    recall = hits / np.maximum(1e-7, hits + fn)
    return hits, misses, tn, fn, precision, recall


def layout(charts: Mapping[str, Mapping[str, Sequence[Any]]]) -> Any:
    """Returns the layout's message: category -> chart -> ["Multiline" or "Margin", tags]."""
    from tensorboard.plugins.custom_scalar import layout_pb2 as pb
    from tensorboard.plugins.custom_scalar import metadata

    categories = []
    for category, by_title in charts.items():
        made = []
        for title, (kind, tags) in by_title.items():
            if kind == "Margin":
                if len(tags) != 3:
                    raise ValueError(
                        f"add_custom_scalars(): Margin chart {title!r} has {len(tags)} tags, not 3"
                    )
                series = pb.MarginChartContent.Series(value=tags[0], lower=tags[1], upper=tags[2])
                made.append(pb.Chart(title=title, margin=pb.MarginChartContent(series=[series])))
            else:
                lines = pb.MultilineChartContent(tag=[r"^" + t + r"$" for t in tags])
                made.append(pb.Chart(title=title, multiline=lines))
        categories.append(pb.Category(title=category, chart=made))
    data = pb.Layout(category=categories).SerializeToString()
    return _summary(
        tag=metadata.CONFIG_SUMMARY_TAG,
        tensor=_proto(np.array(data, dtype=object)),
        metadata=_metadata(metadata.PLUGIN_NAME),
    )


def mesh(tag: str, vertices: Any, colors: Any, faces: Any, config: Any) -> list[Any]:
    """Returns the messages of a mesh or point cloud: one for each of the arrays."""
    from tensorboard.plugins.mesh import metadata
    from tensorboard.plugins.mesh.plugin_data_pb2 import MeshPluginData as Kind

    given = [(vertices, Kind.VERTEX), (faces, Kind.FACE), (colors, Kind.COLOR)]
    given = [(array, kind) for array, kind in given if array is not None]
    bits = metadata.get_components_bitmask([kind for _, kind in given])
    settings = json.dumps(config, sort_keys=True) if config else None
    return [
        _summary(
            tag=metadata.get_instance_name(tag, kind),
            tensor=_proto(array),
            metadata=metadata.create_summary_metadata(
                tag, "", kind, bits, array.shape, "", json_config=settings
            ),
        )
        for array, kind in given
    ]


def hparams(
    values: Mapping[str, Any], metrics: Mapping[str, Any], discrete: Mapping[str, Any] | None
) -> list[Any]:
    """Returns the messages of the hparams plugin: experiment, start and end of a session."""
    from tensorboard.plugins.hparams import api_pb2 as pb
    from tensorboard.plugins.hparams import metadata
    from tensorboard.plugins.hparams.plugin_data_pb2 import (
        HParamsPluginData,
        SessionEndInfo,
        SessionStartInfo,
    )

    for name, given in (discrete or {}).items():
        if name not in values or not isinstance(given, (list, tuple)):
            raise TypeError(
                f"add_hparams(): hparam_domain_discrete[{name!r}] must be the list of the values "
                "of a hyperparameter in hparam_dict"
            )
    start, infos = SessionStartInfo(), []
    for name, value in values.items():
        if value is None:
            continue
        info = pb.HParamInfo(name=name)
        domain = (discrete or {}).get(name, ())
        if isinstance(value, bool):
            start.hparams[name].bool_value = value
            info.type = pb.DATA_TYPE_BOOL
        elif isinstance(value, (int, float)):
            start.hparams[name].number_value = value
            info.type = pb.DATA_TYPE_FLOAT64
        elif isinstance(value, str):
            start.hparams[name].string_value = value
            info.type = pb.DATA_TYPE_STRING
        else:
            raise ValueError(
                f"add_hparams(): {name} must be int, float, str, bool or a tensor of one element, "
                f"got {type(value).__name__}"
            )
        if domain:
            info.domain_discrete.extend(domain)
        infos.append(info)
    measured = [pb.MetricInfo(name=pb.MetricName(tag=name)) for name in metrics]
    experiment = pb.Experiment(hparam_infos=infos, metric_infos=measured)
    end = SessionEndInfo(status=pb.STATUS_SUCCESS)
    return [
        _summary(
            tag=tag,
            metadata=metadata.create_summary_metadata(HParamsPluginData(**{field: data})),
        )
        for tag, field, data in (
            (metadata.EXPERIMENT_TAG, "experiment", experiment),
            (metadata.SESSION_START_INFO_TAG, "session_start_info", start),
            (metadata.SESSION_END_INFO_TAG, "session_end_info", end),
        )
    ]
