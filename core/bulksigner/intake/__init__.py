"""How files become jobs: watched folders, uploads, rescans, and the one service that enqueues."""
