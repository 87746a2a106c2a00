//! From a GID to a MAC address and a VLAN: routes and neighbours over rtnetlink.
