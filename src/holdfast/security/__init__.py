"""Who somebody is, and what he may: rules and values only, without files, sockets and clocks."""
