"""The history: what became of each match and each attempt, as Parquet files that people ask later.

The owner of a partition writes them, from the rows in its journal; the pipeline's driver brings
them to where the operator wants them, merges and deletes them. Hides: Parquet, and file names.
"""
