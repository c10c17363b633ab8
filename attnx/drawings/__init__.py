"""What each part of attention does, drawn on one tiny example: the command ``attnx draw`` and its page."""
