"""Queries over the lane's changes, or over topics of JSON: SQL or a function on Spark, with state.

    computation       the result as a DataFrame: views of the sources, then the user's SQL or function
    change_views      a view of a table's changes, typed as the target's table is
    result_sink       where its rows go: result_table, result_files, result_topic
    staged_results    tasks write the rows of an epoch to where no reader looks: staging_table, staged_files
    query_lane        an epoch of a query: settle, stage, merge, ledger row, pre-commit
    poison_search     finds the message that a failing epoch is due to
    rebuilding        computes the result anew beside the old rows
    archive_source    the archive's messages, where Kafka no longer has them
    state_shape       names and schemas of the state, stored and planned

A query is a lane of its own kind: it has its own checkpoint, which has Spark's state, generations, ledger rows, guard
and quarantine. Spark writes the state of epoch N before `commits/N`, so state and target are decided by one file.
"""
