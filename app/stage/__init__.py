"""Staging: Spark's tasks read, decode and compact spans of messages, and copy them into staging tables.

    driver (`app.dispatch`)                  task of a resident Spark job
    pool ........ Request(span, tables) ---> serving: reads, decodes, arranges (`app.stage.stager`)
      |      <--- Wanted(layouts)            a layout whose staging table is not known yet
    lending ..... Grant(tables) ---------->  COPY into the lent tables, committed at once
      |      <--- Receipt(counts, positions, source times, ...)
    lane merges the staged rows in its own transaction, epoch after epoch

Rows do not return to the driver, except for a few (64 KB of lines), as the INSERTs that it sends with the merge. The
death of a stage process loses nothing: tables are merged only with a receipt.
"""
