"""The ledger: the lanes' positions and generations, recorded in the target database."""
