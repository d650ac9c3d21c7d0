"""More rows than fit in memory, and more than one machine: only this room imports dask and Spark.

blocks.py   rows in blocks, wherever they are, looked at through sums; estimators take them in `fit`
rows.py     of a dask collection (the extra `distributed`)
spark.py    of a Spark data frame (the extra `spark`)
streams.py  of files and iterators of record batches
cluster.py  calls that run on a cluster, one result each
reports.py  report files, streamed in blocks and added up
"""
