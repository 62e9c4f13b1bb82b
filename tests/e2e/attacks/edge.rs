//! Only the API server is believed: reviews and stored requests of others count for nothing.
