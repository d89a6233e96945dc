"""The ``mysql`` database driver, for MariaDB 10.11+ and MySQL 8+."""

from envhub.envs.db.mysql.driver import MysqlDriver

__all__ = ["MysqlDriver"]
