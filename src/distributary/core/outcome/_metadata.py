"""What the tables of the delivery store belong to."""

import sqlalchemy as sa

metadata = sa.MetaData()
