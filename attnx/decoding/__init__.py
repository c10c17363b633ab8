"""How outputs are searched for; decoders know no model."""
