"""The relay, `discreet relay`: it carries sealed reports to a server and hides who sent them.

settings.py   flags and variables          store.py     what is kept of a batch, in SQLite
batches.py    admit, close, forward, forget            app.py       HTTP
"""
