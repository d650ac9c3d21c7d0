"""More than one machine: the extra `distributed` (dask). Only this room imports dask.

rows.py     blocks of a dask collection, looked at through sums; estimators take them in `fit`
cluster.py  calls that run on a cluster, one result each
reports.py  report files, streamed in blocks and added up
"""
