"""The guard: what a write would store is looked at first. `sensitive` finds secrets and personal data, `policy` says what becomes
of each kind, `examination` applies it to one write, `extras` brings detectors of other packages."""
