"""Short-term messages kept near: in this process (`memory`) or in a Redis that processes share (`redis`). `registry` makes one of
what the settings say, `buffered` puts it before a store, `codec` turns windows into bytes. Nothing in here is the truth."""
