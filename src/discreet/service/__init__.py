"""The decision service: `discreet serve`. Needs the extra `service`; the client needs nothing."""
