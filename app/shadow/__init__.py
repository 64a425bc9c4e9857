"""Shadow copies: a second lane fills a copy of a lane's tables, and takes their place.

    create    one transaction: tables in another schema, filled from the target's rows at the position of the original
              lane's ledger (or empty, filled from the topics' beginning), and the second lane's first ledger row
    run       the second lane follows the same topics into that schema, under its own name, lock, ledger and checkpoint
    switch    both lanes pause, the copy is not behind the original; one transaction: tables change their schemas, the
              original lane may not run any more, the pauses end. The second lane opens its tables anew and goes on
    undo      the same backwards; the original lane goes on at its own ledger's end
    dispose   drops what is not in use: the original tables after a switch, the copy before one

In another database (`elsewhere`) nothing changes its schema: the switch only ends the original lane.

Promise: at every moment the configured names have one complete set of tables, of one lane; a reader sees the old set or
the new one. The original tables exist until `dispose`. A command that was killed is called again, and goes on.
"""
