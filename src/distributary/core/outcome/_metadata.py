"""The SQLAlchemy metadata of the delivery store's tables."""

import sqlalchemy as sa

metadata = sa.MetaData()
