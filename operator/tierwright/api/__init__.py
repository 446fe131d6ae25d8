"""What the user says: the InferenceTier API, its rules, and the CRD made from them."""
