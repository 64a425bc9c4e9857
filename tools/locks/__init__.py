"""The lock files: update pinned versions, audit for vulnerabilities, write a bill of materials."""
