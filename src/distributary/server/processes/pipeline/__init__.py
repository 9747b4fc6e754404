"""Parts of the Spark driver process and of archive jobs: settings of sessions, and children."""
