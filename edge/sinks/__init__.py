"""Sinks: small hooks that receive each :class:`edge.telemetry.Served` event."""
