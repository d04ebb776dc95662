//! libunbloat.so: what runs inside the server.
