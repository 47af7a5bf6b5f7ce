"""Rules, which label rows; memberships, reasons and profiles."""
