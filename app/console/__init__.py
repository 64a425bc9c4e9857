"""The operator's console: a web server that shows what the command line knows, of lanes that run and of others.

It has no logic of its own. A screen is a document, which a function of `app.cli` or of the rooms below makes, and a
template of it; `/api` gives the same document as JSON, `/live` sends the template's result again whenever it changes.

    request -> gate (host, login, headers) -> screen_routes: page | api | live -> reading (a document) -> template
                                           -> action_routes -> the function that the verb calls, with who and why

Promises:

1. Nothing is changed without `--allow-actions`, a login, the session's CSRF token and an Origin of this server; what is
   changed has a row in the target with who and why (`indoubt_answer`, `quarantine_event`).
2. Values of messages and errors are text: escaped by the templates, and by the policy of content even an escaped
   mistake does not run. Columns of `guard.redact` are hidden as the command line hides them.
3. Nothing is read while no page is open. Viewers of one page share one reader.
"""
