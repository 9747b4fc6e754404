"""The console: a web page at ``/console``, made of files that are part of the package.

Caller: ``server.processes``, which mounts it in the application of the API. Hides: how the files
are found, named and cached. They hold nothing of this server, so anybody may read them; what the
page shows, it asks of the public API with the key that its user types in.

``static/`` is what a browser runs: one page, one style sheet, plain ES modules. There is no build.
"""

from distributary.server.console._application import CONTENT_SECURITY_POLICY, Console
from distributary.server.console._files import BYTES_MAX, PATH, read_files
