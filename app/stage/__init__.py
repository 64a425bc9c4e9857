"""Staging: spans of messages are read, decoded, compacted and copied into staging tables by Spark's tasks.

    driver                                   task of a resident Spark job
    pool ........ Request(span, tables) ---> serving: reads, decodes, arranges (`app.stage.stager`)
      |      <--- Wanted(layouts)            a layout whose staging table is not known yet
    lending ..... Grant(tables) ---------->  COPY into the tables that it was lent, committed at once
      |      <--- Receipt(counts, positions, source times, ...)
    lane merges the staged rows in its own transaction, epoch after epoch

No row comes back to the driver. A stage process that dies takes nothing along: nobody merges tables without a receipt.
"""
